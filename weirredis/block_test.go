package weirredis_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// blocking is perUser with a block.
func blocking(max int64, window, block time.Duration) weir.Limit {
	return perUser(max, window).Blocking(block)
}

// blockOf returns the bytes of a block in front of a header.
func blockOf(begin time.Time, length time.Duration) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(begin.UnixMicro()))
	b[0] = 4
	micros := binary.BigEndian.AppendUint64(nil, uint64(length.Microseconds()))
	return string(append(b, micros[1:]...))
}

// mustBlock begins or, with a length of 0, ends blocks of a user.
func mustBlock(t *testing.T, e engine.Engine, l *weir.Limiter, length time.Duration) engine.Result {
	t.Helper()
	return mustDo(t, e, blockCall(l, length))
}

func blockCall(l *weir.Limiter, length time.Duration) engine.Call {
	c := engine.Call{Rules: l.Compiled(), Key: weir.K("u"), Op: engine.Block}
	c.From = length.Microseconds()
	return c
}

// TestKeysLiveAsLongAsTheirBlocks: a key lives at least as long as its block, and no block, or
// recording beside it, shortens its life (R13, R20).
func TestKeysLiveAsLongAsTheirBlocks(t *testing.T) {
	redistest.OnEachVersion(t, testKeysLiveAsLongAsTheirBlocks)
}

func testKeysLiveAsLongAsTheirBlocks(t *testing.T, v redistest.Version) {
	s := v.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(0))
	calendar := blocking(1, 0, time.Hour)
	calendar.Kind, calendar.Period = weir.KindFixed, weir.Hour
	filling := bucket(1, time.Minute, 1).Blocking(time.Hour)
	for name, c := range map[string]struct {
		limit weir.Limit
		least time.Duration
	}{
		"a longer block":             {blocking(1, time.Minute, time.Hour), time.Hour},
		"a shorter block":            {blocking(1, 24*time.Hour, time.Minute), 24 * time.Hour},
		"a block of a bucket":        {filling, time.Hour},
		"a block of a Period":        {calendar, time.Hour},
		"a block of no entries":      {blocking(0, time.Minute, time.Hour), time.Hour},
		"the longest block":          {blocking(1, time.Minute, 400*24*time.Hour), 400 * 24 * time.Hour},
		"a block of the same length": {blocking(1, time.Hour, time.Hour), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(t, e, "lives", weir.AllOrNothing, c.limit)
			key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
			s.Must(t, "DEL", key)
			before := time.Now()
			for range c.limit.Max {
				mustAllow(t, l, weir.K("u"))
			}
			d := mustDo(t, e, engine.Call{Rules: l.Compiled(), Key: weir.K("u"), N: 1})
			assert.Equal(t, d.Blocked.Microseconds(), l.Compiled().Limits[0].Block, "rest of the block")
			if got := ttl(t, s, key); shorter(got, c.least, before) {
				t.Errorf("the key lives %v, want %v", got, c.least)
			}
			lives := ttl(t, s, key)
			for range 3 { // a record, a refund and a denial
				if _, err := l.Record(ctx, weir.K("u"), 1); err != nil {
					t.Fatal(err)
				}
				mustDo(t, e, engine.Call{Rules: l.Compiled(), Key: weir.K("u"), Op: engine.Refund, N: 1, From: engine.Oldest})
				assert.Equal(t, mustAllow(t, l, weir.K("u")).Allowed, false, "an attempt during the block is allowed")
			}
			if got := ttl(t, s, key); shorter(got, c.least, before) || got < lives-time.Minute {
				t.Errorf("after recordings the key lives %v, want %v", got, lives)
			}
		})
	}
}

// TestBlockWithoutEntriesIsOneField: a history without entries can have a block. Its end deletes
// the key, and leaves the entries of another history (R20).
func TestBlockWithoutEntriesIsOneField(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t))
	l := limiter(t, e, "blockonly", weir.AllOrNothing, perUser(5, time.Hour))
	key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
	s.Must(t, "DEL", key)
	assert.Equal(t, mustBlock(t, e, l, time.Hour).Blocked, time.Hour, "rest of the block")
	assert.Equal(t, len(s.Must(t, "HGET", key, "h")), 15, "bytes of the header: the block alone")
	assert.Equal(t, mustAllow(t, l, weir.K("u")).Allowed, false, "an attempt during the block is allowed")
	mustBlock(t, e, l, 0)
	assert.Equal(t, s.Must(t, "EXISTS", key), "0", "the key of a history with nothing")

	mustAllowN(t, l, weir.K("u"), 2)
	header := s.Must(t, "HGET", key, "h")
	mustBlock(t, e, l, time.Hour)
	assert.Equal(t, s.Must(t, "HGET", key, "h")[15:], header, "the header behind the block")
	mustBlock(t, e, l, 0)
	assert.Equal(t, s.Must(t, "HGET", key, "h"), header, "the header after the block")
	mustBlock(t, e, l, time.Hour)
	if _, err := l.Reset(ctx, weir.K("u")); err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, s.Must(t, "EXISTS", key), "0", "the key after a reset")
}

// TestBlockLeavesForeignHistories: a block does not hide a header of another version.
func TestBlockLeavesForeignHistories(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t))
	l := limiter(t, e, "foreignblock", weir.AllOrNothing, perUser(5, time.Hour))
	key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
	s.Must(t, "DEL", key)
	s.Must(t, "HSET", key, "h", "\x0a of a later version")
	_, err := do(e, blockCall(l, time.Hour))
	assert.Error(t, err, weirredis.ErrState, "layout is version 10")
	assert.Equal(t, s.Must(t, "HGET", key, "h"), "\x0a of a later version", "the header")
}

// TestEndedBlockLeavesWithARecording: a recording by the server's clock drops a block that is over.
// Other calls leave it.
func TestEndedBlockLeavesWithARecording(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	rules, err := weir.Policy{Name: "ended", Limits: []weir.Limit{blocking(5, time.Hour, time.Minute)}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	key := weirredis.Keys(rules, weir.K("u"), false)[0]
	s.Must(t, "DEL", key)
	call := func(op engine.Op, n int64) engine.Result {
		t.Helper()
		return mustDo(t, e, engine.Call{Rules: rules, Key: weir.K("u"), Op: op, N: n})
	}
	at := call(engine.Attempt, 2).At
	over := blockOf(at.Add(-2*time.Minute), time.Minute)
	running := blockOf(at.Add(-2*time.Minute), time.Hour)
	header := s.Must(t, "HGET", key, "h")
	form := func() byte { return s.Must(t, "HGET", key, "h")[0] }

	s.Must(t, "HSET", key, "h", over+header)
	call(engine.Peek, 1)
	mustDo(t, e, engine.Call{Rules: rules, Key: weir.K("u"), Op: engine.Refund, N: 1, From: at.UnixMicro()})
	assert.Equal(t, form(), 4, "form of the header after a peek and a refund")
	assert.Equal(t, call(engine.Attempt, 1).Remaining, 3, "remaining units")
	assert.Equal(t, form(), 1, "form of the header after a grant")

	s.Must(t, "HSET", key, "h", running+header)
	call(engine.Record, 1)
	assert.Equal(t, form(), 4, "form of the header after a record in a block")
	assert.Equal(t, call(engine.Attempt, 1).Blocked > 57*time.Minute, true, "the block runs")
}

// TestGrantsOfRulesWithBlocksReadHistoriesOnce: plain.lua decides grants of rules with blocks. It
// leaves their denials to decide.lua. A denial that begins a block reads the header to write it.
func TestGrantsOfRulesWithBlocksReadHistoriesOnce(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t), weirredis.DenialCacheTTL(0))
	l := limiter(t, e, "short", weir.AllOrNothing, blocking(2, time.Hour, time.Minute))
	for i, reads := range []int{1, 1, 3, 2} {
		before := counts(t, s)["hget"]
		d := mustAllow(t, l, weir.K("u"))
		assert.Equal(t, d.Allowed, i < 2, "attempt %d is allowed", i)
		assert.Equal(t, counts(t, s)["hget"]-before, reads, "attempt %d: fields that were read", i)
	}
}

// TestCachedDenialsOfBlocks: a denial that found its block running is cached until the block ends.
// Neither a peek nor a denial before the block keeps an attempt from beginning it, and the calls
// that change histories or blocks end cached denials (R8, R20).
func TestCachedDenialsOfBlocks(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(time.Hour))
	l := limiter(t, e, "cachedblock", weir.AllOrNothing, blocking(3, time.Hour, time.Minute))
	other := limiter(t, e, "cachedblock", weir.AllOrNothing, perUser(3, time.Hour))
	s.Must(t, "DEL", weirredis.Keys(l.Compiled(), weir.K("u"), false)[0])
	attempt := func(l *weir.Limiter, n int64) engine.Result {
		t.Helper()
		return mustDo(t, e, engine.Call{Rules: l.Compiled(), Key: weir.K("u"), N: n})
	}
	reserved := engine.Call{Rules: other.Compiled(), Key: weir.K("u"), N: 2, ID: "r", TTL: time.Hour.Microseconds()}
	mustDo(t, e, reserved)
	for range 2 { // without a block
		attempt(other, 2)
	}
	assert.Equal(t, attempt(other, 2).Cached, true, "a repeated denial is cached")
	assert.Equal(t, mustPeek(t, l, weir.K("u"), 2).Allowed, false, "a peek is allowed")
	began := attempt(l, 2)
	assert.Equal(t, began.Cached, false, "the denial that begins a block is cached")
	assert.Equal(t, began.Blocked, time.Minute, "rest of the block")
	assert.Equal(t, attempt(other, 2).Blocked > 0, true, "the denial from before the block still counts")
	first, again := attempt(l, 2), attempt(l, 2)
	assert.Equal(t, first.Cached, false, "the first denial in a block is cached")
	assert.Equal(t, again.Cached, true, "a repeated denial in a block is cached")
	if again.Blocked > first.Blocked || again.Blocked <= 0 || again.Remaining != 0 {
		t.Errorf("the repeated denial is %+v, the first %+v", again, first)
	}

	for about, change := range map[string]engine.Call{
		"the end of the block":  {Op: engine.Block},
		"a longer block":        {Op: engine.Block, From: time.Hour.Microseconds()},
		"an extension":          {Op: engine.Extend, ID: "r", From: engine.Unknown},
		"a settlement":          {Op: engine.Settle, ID: "r", N: 1},
		"a repeated settlement": {Op: engine.Settle, ID: "r", N: 1},
	} {
		for range 3 {
			attempt(l, 4)
		}
		assert.Equal(t, attempt(l, 4).Cached, true, "before %s", about)
		change.Rules, change.Key = other.Compiled(), weir.K("u")
		if _, err := do(e, change); err != nil && about != "an extension" {
			t.Errorf("%s: %v", about, err)
		}
		assert.Equal(t, attempt(l, 4).Cached, false, "after %s", about)
	}
}

// TestCachedDenialEndsWithItsBlock: after its block a denial is other, so the server decides again.
func TestCachedDenialEndsWithItsBlock(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(time.Hour))
	now := time.Now()
	e.WithClock(func() time.Time { return now })
	l := limiter(t, e, "endsblock", weir.AllOrNothing, blocking(1, time.Hour, time.Minute))
	if _, err := l.Reset(ctx, weir.K("u")); err != nil {
		t.Fatal(err)
	}
	var d weir.Decision
	for range 4 {
		d = mustAllow(t, l, weir.K("u"))
	}
	assert.Equal(t, d.Cached, true, "a repeated denial is cached")
	now = now.Add(20 * time.Second)
	later := mustAllow(t, l, weir.K("u"))
	assert.Equal(t, later.Cached, true, "a denial in the block is cached")
	assert.Equal(t, d.Blocked-later.Blocked, 20*time.Second, "what is left of the block")
	now = now.Add(50 * time.Second)
	assert.Equal(t, mustAllow(t, l, weir.K("u")).Cached, false, "a denial from the block is repeated after it")
}

// TestProbeEndsCachedDenials: a probe begins a block, so denials from before it are over.
func TestProbeEndsCachedDenials(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(time.Hour))
	l := limiter(t, e, "probed", weir.AllOrNothing, blocking(1, time.Hour, time.Minute))
	other := limiter(t, e, "probed", weir.AllOrNothing, perUser(1, time.Hour))
	s.Must(t, "DEL", weirredis.Keys(l.Compiled(), weir.K("u"), false)[0])
	for range 3 {
		mustAllow(t, other, weir.K("u"))
	}
	assert.Equal(t, mustAllow(t, other, weir.K("u")).Cached, true, "a repeated denial is cached")
	d := mustDo(t, e, engine.Call{Rules: l.Compiled(), Key: weir.K("u"), Op: engine.Probe, N: 1})
	assert.Equal(t, d.Blocked, time.Minute, "rest of the block")
	assert.Equal(t, mustAllow(t, other, weir.K("u")).Cached, false, "the denial from before the block is repeated")
}

// TestFirstOfEqualWaitsBegins: of the limits of a call that denied, the one with the longest wait
// begins its block, and of several the first. So it is in calls together (R7, R20).
func TestFirstOfEqualWaitsBegins(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	limit := func(name string, window, block time.Duration) weir.Limit {
		return weir.Limit{Name: name, Max: 1, Window: window}.Blocking(block)
	}
	for name, c := range map[string]struct {
		limits []weir.Limit
		begins int
	}{
		"first": {[]weir.Limit{limit("a", time.Hour, time.Minute), limit("b", time.Hour, 2*time.Minute)}, 0},
		"last":  {[]weir.Limit{limit("a", time.Minute, time.Minute), limit("b", time.Hour, time.Minute)}, 1},
	} {
		rules := limiter(t, e, "equal-"+name, weir.AllOrNothing, c.limits...).Compiled()
		s.Must(t, append([]string{"DEL"}, weirredis.Keys(rules, weir.K(), false)...)...)
		states := make([]engine.State, 2)
		for range 2 {
			call := engine.Call{Rules: rules, N: 1, At: nine.UnixMicro(), Given: true, States: states}
			calls := []engine.Call{call, {Rules: rules, N: 0, At: call.At, Given: true}}
			must.Do(t, engine.Together(ctx, e, calls))
		}
		for i := range states {
			assert.Equal(t, states[i].Blocked > 0, i == c.begins, "%s: limit %d is blocked", name, i)
		}
	}
}
