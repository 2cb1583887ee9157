package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/dims"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

var ctx = context.Background()

// nine is the instant of the callers' clocks.
var nine = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// limiter returns a limiter with the limits on the engine.
func limiter(t testing.TB, e engine.Engine, name string, mode weir.Mode, limits ...weir.Limit) *weir.Limiter {
	t.Helper()
	l, err := weir.New(weir.Policy{Name: name, Mode: mode, Dimensions: dims.Of(limits...), Limits: limits}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// do makes one call on an engine.
func do(e engine.Engine, c engine.Call) (engine.Result, error) {
	calls := []engine.Call{c}
	e.Do(ctx, calls)
	return calls[0].Result, calls[0].Err
}

// fields returns the exported fields of a decision: its reason is not known to tests.
func fields(d weir.Decision) engine.Result {
	return engine.Result{Allowed: d.Allowed, Granted: d.Granted, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
		At: d.At, Limit: d.Limit, Degraded: d.Degraded, Replayed: d.Replayed, Cached: d.Cached}
}

func perUser(max int64, window time.Duration) weir.Limit {
	return weir.Limit{Name: "user", Max: max, Window: window, By: []string{"user"}}
}

func bucket(max int64, window time.Duration, burst int64) weir.Limit {
	l := perUser(max, window)
	l.Kind, l.Burst = weir.KindBucket, burst
	return l
}

// wantUnreadable fails the test unless all operations return an error with the key in printable
// form and a text, and change nothing.
func wantUnreadable(t *testing.T, about string, l *weir.Limiter, user, want string, without ...string) {
	t.Helper()
	s, k, at := redistest.Shared(t), weir.K(user), nine.Add(time.Hour+200*time.Second)
	key, now := weirredis.Keys(l.Compiled(), k, false)[0], l.At(at)
	before := s.Must(t, "DUMP", key)
	for op, ask := range map[string]func() error{
		"attempt": func() error { _, err := now.Allow(ctx, k); return err },
		"batch": func() error {
			call := weir.Call{Limiter: l, Key: k, Request: weir.Request{N: 1, At: at}}
			other := call
			other.Key = weir.K("another " + user)
			calls := []weir.Call{call, other, call}
			if weir.DecideAll(ctx, calls); calls[1].Err != nil {
				t.Errorf("%s: another key of the batch: %v", about, calls[1].Err)
			}
			return calls[2].Err
		},
		"record": func() error { _, err := now.Record(ctx, k, 1); return err },
		"peek":   func() error { _, err := now.Peek(ctx, k, 1); return err },
		"refund": func() error { _, err := now.Refund(ctx, k, nine, 1); return err },
		"count":  func() error { _, err := now.Count(ctx, k, "user", time.Hour); return err },
		"inspect": func() error {
			peek := engine.Call{Rules: l.Compiled(), Key: k, Op: engine.Peek, N: 1, At: at.UnixMicro(), Given: true}
			peek.Histories = new([]engine.History)
			_, err := do(newEngine(t, redisConn(t)), peek)
			return err
		},
	} {
		if slices.Contains(without, op) {
			continue
		}
		err := ask()
		if !errors.Is(err, weirredis.ErrState) || !errors.Is(err, weir.ErrUnreadable) || !errors.Is(err, weir.ErrUnavailable) ||
			!strings.Contains(err.Error(), strconv.QuoteToASCII(key)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %s: got %v, want ErrState with %q and %q", about, op, err, key, want)
		}
		assert.Equal(t, s.Must(t, "DUMP", key), before, "%s, %s: the history", about, op)
	}
}

// TestUnreadableStateIsNotChanged stores foreign data under the key of a history. Every
// operation returns an error, and writes nothing.
func TestUnreadableStateIsNotChanged(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DisableBatching(), weirredis.DenialCacheTTL(0))
	const user = "eve\n\x1b[31m"
	rolling := limiter(t, e, "unreadable", weir.AllOrNothing, perUser(1000, time.Hour))
	daily := limiter(t, e, "unreadable-day", weir.AllOrNothing, perUser(1000, 24*time.Hour)) // its entries count
	filling := limiter(t, e, "unreadable-bucket", weir.AllOrNothing, bucket(7, time.Second, 9))
	header := func(l *weir.Limiter, n int) string { // returns that of a history of n entries
		key := weirredis.Keys(l.Compiled(), weir.K(user), false)[0]
		s.Must(t, "DEL", key)
		for i := range n {
			mustAllow(t, l.At(nine.Add(time.Duration(i)*time.Second)), weir.K(user))
		}
		return s.Must(t, "HGET", key, "h")
	}
	short, long, full := header(rolling, 3), header(rolling, 200), header(filling, 1)
	assert.Equal(t, len(full), 56, "bytes of a bucket, which has no other length")
	none := strings.Repeat("\x00", 14) // a block behind its form
	damaged := func(header string, at int, bytes string) []string {
		return []string{"HSET", "", "h", header[:at] + bytes + header[at+len(bytes):]}
	}
	for _, c := range []struct {
		about string
		l     *weir.Limiter
		put   []string // a command, in which "" is the key
		want  string
	}{
		{"a string", rolling, []string{"SET", "", "x"}, "the type of its value"},
		{"a list", rolling, []string{"RPUSH", "", "x"}, "the type of its value"},
		{"nothing in the header", rolling, []string{"HSET", "", "h", ""}, "cut off"},
		{"a newer layout", rolling, []string{"HSET", "", "h", "\x0a" + short[1:]}, "layout is version 10"},
		{"a layout of version 0 without room", daily, []string{"HSET", "", "h", "\x00" + short[1:23] + "\x00\x00\x03\xe8" + short[27:]}, "layout is version 0"},
		{"the header of a bucket without room", daily, []string{"HSET", "", "h", "\x03" + short[1:23] + "\x00\x00\x03\xe8" + short[27:]}, "layout is version 3"},
		{"the header of a bucket", rolling, []string{"HSET", "", "h", "\x03" + short[1:]}, "layout is version 3"},
		{"the other form", rolling, []string{"HSET", "", "h", "\x02" + short[1:]}, "cut off"},
		{"a short header cut off", rolling, []string{"HSET", "", "h", short[:len(short)-1]}, "cut off"},
		{"a short header cut off early", rolling, []string{"HSET", "", "h", short[:9]}, "cut off"},
		{"a short header that is too long", rolling, []string{"HSET", "", "h", short + "x"}, "cut off"},
		{"a long header cut off", rolling, []string{"HSET", "", "h", long[:len(long)-1]}, "cut off"},
		{"a long header cut off early", rolling, []string{"HSET", "", "h", long[:30]}, "cut off"},
		{"the form of a bucket alone", filling, []string{"HSET", "", "h", full[:1]}, "cut off"},
		{"a bucket cut off", filling, []string{"HSET", "", "h", full[:len(full)-1]}, "cut off"},
		{"a bucket that is too long", filling, []string{"HSET", "", "h", full + "x"}, "cut off"},
		{"a newest attempt beyond all clocks", daily, damaged(short, 1, "\xff"), "is damaged"},
		{"an oldest entry behind the newest", daily, damaged(short, 8, "\x1f"), "is damaged"},
		{"a newest entry without units", daily, damaged(short, 21, "\x00\x00"), "is damaged"},
		{"a newest entry of more units than all", daily, damaged(short, 21, "\xff"), "is damaged"},
		{"too many units", rolling, damaged(long, 28, "\xff"), "is damaged"},
		{"a newest entry far ahead of its attempt", rolling, damaged(long, 35, "\x1f"), "is damaged"},
		{"a tail of more units than all", rolling, damaged(long, 54, "\x01"), "is damaged"},
		{"far more chunks than there are", rolling, damaged(long, 48, "\xff"), "missing"},
		{"a bucket with an attempt beyond all clocks", filling, damaged(full, 1, "\xff"), "is damaged"},
		{"a bucket of a debt beyond all clocks", filling, damaged(full, 14, "\xff"), "is damaged"},
		{"a bucket that misses a fraction above 1", filling, damaged(full, 21, "\x01"), "is damaged"},
		{"a bucket that was full beyond all clocks", filling, damaged(full, 28, "\xff"), "is damaged"},
		{"a bucket with a rate beyond all clocks", filling, damaged(full, 35, "\xff"), "is damaged"},
		{"a bucket with a rate of a fraction above 1", filling, damaged(full, 42, "\x01"), "is damaged"},
		{"a block cut off", rolling, []string{"HSET", "", "h", "\x04" + none[:13]}, "cut off"},
		{"a block of a header that is cut off", rolling, []string{"HSET", "", "h", "\x04" + none + short[:9]}, "cut off"},
		{"a block in front of a block", daily, []string{"HSET", "", "h", "\x04" + none + "\x04" + none + short}, "layout is version 4"},
		{"a block of a bucket that is cut off", filling, []string{"HSET", "", "h", "\x04" + none + full[:55]}, "cut off"},
		{"a block that begins beyond all clocks", rolling, []string{"HSET", "", "h", "\x04\xff" + none[1:] + short}, "is damaged"},
		{"a block that lasts beyond all clocks", rolling, []string{"HSET", "", "h", "\x04" + none[:7] + "\xff" + none[8:] + short}, "is damaged"},
		{"a bucket without a rate", filling, damaged(full, 35, strings.Repeat("\x00", 14)), "is damaged"},
	} {
		key := weirredis.Keys(c.l.Compiled(), weir.K(user), false)[0]
		s.Must(t, "DEL", key)
		c.put[1] = key
		s.Must(t, c.put...)
		without := "none"
		if c.l == filling {
			without = "count" // which a bucket does not have
		}
		wantUnreadable(t, c.about, c.l, user, c.want, without)
	}
}

// TestDamagedChunksAreAnError removes the last byte of every chunk of a long history, then all
// but its head, then all of it. Decisions that need a chunk return an error.
func TestDamagedChunksAreAnError(t *testing.T) {
	s := redistest.Shared(t)
	l := limiter(t, newEngine(t, redisConn(t)), "cut", weir.AllOrNothing, perUser(1000, time.Hour))
	key := weirredis.Keys(l.Compiled(), weir.K("a"), false)[0]
	s.Must(t, "DEL", key)
	for i := range 300 {
		mustAllow(t, l.At(nine.Add(time.Duration(i)*time.Second)), weir.K("a"))
	}
	chunks := slices.DeleteFunc(s.List(t, "HKEYS", key), func(field string) bool { return field == "h" })
	if len(chunks) < 3 {
		t.Fatalf("the history stands in %d chunks; the test needs a longer one", len(chunks))
	}
	for _, c := range []struct {
		about  string
		damage func(field string)
	}{
		{"without the last byte", func(field string) {
			text := s.Must(t, "HGET", key, field)
			s.Must(t, "HSET", key, field, text[:len(text)-1])
		}},
		{"heads only", func(field string) { s.Must(t, "HSET", key, field, "0123456789a") }},
		{"empty", func(field string) { s.Must(t, "HSET", key, field, "") }},
		{"missing", func(field string) { s.Must(t, "HDEL", key, field) }},
	} {
		for _, field := range chunks {
			c.damage(field)
		}
		// 200 of the 300 no longer count, so the chunks have to be looked at.
		wantUnreadable(t, c.about, l, "a", "cut off", "refund")
	}
}

// TestDamagedSumsAndGapsAreAnError damages a small history of ten entries in places that only a
// decision in which entries leave, or a refund of the oldest, can notice.
func TestDamagedSumsAndGapsAreAnError(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	l := limiter(t, e, "sums", weir.AllOrNothing, perUser(1000, time.Hour))
	key := weirredis.Keys(l.Compiled(), weir.K("a"), false)[0]
	s.Must(t, "DEL", key)
	for i := range 10 {
		mustAllow(t, l.At(nine.Add(time.Duration(i)*time.Second)), weir.K("a"))
	}
	whole := s.Must(t, "HGET", key, "h")
	const total, tail = 26, 28 // places in the header
	attempt := engine.Call{N: 1, At: nine.Add(time.Hour + 8500*time.Millisecond).UnixMicro()}
	withStates := attempt
	withStates.States = make([]engine.State, 1)
	oldest := engine.Call{Op: engine.Refund, From: engine.Oldest, N: 50, At: nine.Add(time.Minute).UnixMicro()}
	for _, c := range []struct {
		about  string
		header string
		calls  []engine.Call
		want   string
	}{
		{"more units have left than there were", whole[:total] + "\x03" + whole[tail-1:], []engine.Call{attempt, withStates}, "a sum of units is damaged"},
		{"far more units than the entries have", whole[:total] + "\x64" + whole[tail-1:], []engine.Call{oldest}, "the header is damaged"},
		{"times that pass the newest entry", whole[:tail] + strings.Repeat("\x5f\xff\xff", 9), []engine.Call{attempt, withStates}, "an entry is missing"},
	} {
		s.Must(t, "HSET", key, "h", c.header)
		for _, call := range c.calls {
			call.Rules, call.Key, call.Given = l.Compiled(), weir.K("a"), true
			_, err := do(e, call)
			assert.Error(t, err, weirredis.ErrState, c.want)
			assert.Equal(t, s.Must(t, "HGET", key, "h"), c.header, "%s, %+v: the header", c.about, call)
		}
	}
}

// TestChunksWithoutUnitsEndWithAGrant: by a damage a history in chunks has no units. The next grant
// begins it again, without its chunks, so later decisions can read it.
func TestChunksWithoutUnitsEndWithAGrant(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	l := limiter(t, e, "unitless", weir.AllOrNothing, perUser(1000, time.Hour))
	key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
	s.Must(t, "DEL", key)
	fill(t, e, l, 200, time.Hour)
	header, none := s.Must(t, "HGET", key, "h"), strings.Repeat("\x00", 7)
	s.Must(t, "HSET", key, "h", header[:21]+none+none+header[35:54]+none+header[61:])
	for i := range int64(3) {
		d, err := l.At(nine.Add(time.Hour-time.Second+time.Duration(i))).Allow(ctx, weir.K("u"))
		if err != nil || !d.Allowed || d.Remaining != 999-i {
			t.Errorf("attempt %d: got %+v, %v, want a grant, after which %d remain", i, d, err, 999-i)
		}
	}
	assert.Equal(t, s.Must(t, "HLEN", key), "1", "fields: the header alone")
}

// TestNoBucketIsWrittenBeyondAllClocks: a bucket was full at the last of all instants, by a damage.
// With one unit less the instant of its next fill is none.
func TestNoBucketIsWrittenBeyondAllClocks(t *testing.T) {
	s := redistest.Shared(t)
	l := limiter(t, newEngine(t, redisConn(t)), "beyond", weir.AllOrNothing, bucket(7, time.Second, 9))
	key, now := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0], l.At(time.UnixMicro(10))
	s.Must(t, "DEL", key)
	mustAllow(t, now, weir.K("u"))
	header := s.Must(t, "HGET", key, "h")
	header = header[:28] + "\x1f" + strings.Repeat("\xff", 6) + header[35:]
	s.Must(t, "HSET", key, "h", header)
	_, err := now.Allow(ctx, weir.K("u"))
	assert.Error(t, err, weirredis.ErrState, "is damaged")
	assert.Equal(t, s.Must(t, "HGET", key, "h"), header, "the header")
}

// TestOneBadHistoryStopsAllLimits damages the history of one limit: no other limit of the
// decision records an entry (R7). The error names only this history.
func TestOneBadHistoryStopsAllLimits(t *testing.T) {
	redistest.OnEachVersion(t, testOneBadHistoryStopsAllLimits)
}

func testOneBadHistoryStopsAllLimits(t *testing.T, v redistest.Version) {
	s := v.Shared(t)
	e := newEngine(t, s.Conn(t))
	for n := 2; n <= 5; n++ {
		var limits []weir.Limit
		for i := range n {
			limits = append(limits, weir.Limit{Name: "l" + strconv.Itoa(i), Max: 9, Window: time.Hour})
		}
		l := limiter(t, e, "bad"+strconv.Itoa(n), weir.AllOrNothing, limits...)
		keys := weirredis.Keys(l.Compiled(), weir.K(), false)
		for _, bad := range keys {
			for _, put := range [][]string{{"SET", bad, "x"}, {"HSET", bad, "h", "x"}} {
				s.Must(t, append([]string{"DEL"}, keys...)...)
				s.Must(t, put...)
				_, err := l.Allow(ctx, weir.K())
				assert.Error(t, err, weirredis.ErrState, "under "+strconv.Quote(bad)+": ")
				assert.Equal(t, s.Must(t, append([]string{"EXISTS"}, keys...)...), "1", "%d limits, %s: keys, only that one", n, put)
			}
		}
	}
}

// damages is the number of damages of each form of a history.
var damages = race.Fewer(300)

// TestDamageIsAnErrorOrHarmless flips bits and replaces bytes of stored histories of all forms, in
// headers and chunks, and makes calls while all, some or no entries count. Each call returns soon,
// either with a possible answer or with the error that names the key. An error changes nothing.
func TestDamageIsAnErrorOrHarmless(t *testing.T) {
	cells, fixed, first, hour, hold := perUser(400, time.Hour), perUser(400, time.Hour), perUser(400, time.Hour), perUser(400, 0), perUser(400, 0)
	cells.Cells, fixed.Kind, first.Kind, hold.Kind = 90, weir.KindFixed, weir.KindFixedFromFirst, weir.KindConcurrency
	hold.MaxHold = time.Hour
	hour.Kind, hour.Period = weir.KindFixed, weir.Hour
	for _, f := range []struct {
		name   string
		limit  weir.Limit
		mode   weir.Mode
		grants int
		chunk  int // bytes of entries
	}{
		{"small", perUser(40, time.Hour), weir.AllOrNothing, 12, 96},
		{"chunks", perUser(400, time.Hour), weir.AllOrNothing, 120, 96},
		{"short chunks", perUser(400, time.Hour), weir.AllOrNothing, 40, 9},
		{"counted", perUser(40, time.Hour), weir.CountDenied, 60, 20},
		{"partial", perUser(40, time.Hour), weir.Partial, 60, 20},
		{"cells", cells, weir.AllOrNothing, 60, 9},
		{"fixed", fixed, weir.AllOrNothing, 60, 9},
		{"first", first, weir.AllOrNothing, 60, 9},
		{"period", hour, weir.AllOrNothing, 60, 9},
		{"hold", hold, weir.AllOrNothing, 60, 20},
		{"bucket", bucket(7, time.Second, 900), weir.AllOrNothing, 60, 96},
		{"blocked", perUser(40, time.Hour).Blocking(time.Minute), weir.AllOrNothing, 60, 20},
		{"blocked bucket", bucket(7, time.Second, 40).Blocking(time.Minute), weir.AllOrNothing, 60, 96},
		{"counted bucket", bucket(1_000_003, time.Hour, 40), weir.CountDenied, 60, 96},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := redistest.Start(t) // a server of its own, because a damage may block it
			e := newEngine(t, s.Conn(t), weirredis.WithChunks(f.chunk), weirredis.DenialCacheTTL(0))
			d := damaged{s: s, e: e, p: limiter(t, e, "damaged", f.mode, f.limit).Compiled(), r: rand.New(rand.NewPCG(1, 9))}
			d.key = weirredis.Keys(d.p, weir.K("u"), false)[0]
			for i := range f.grants {
				d.at = nine.Add(time.Duration(i) * time.Minute / 2)
				if _, err := d.do(engine.Call{N: []int64{1, 1, 1, 5}[i%4]}); err != nil {
					t.Fatal(err)
				}
			}
			whole, newest := s.Must(t, "DUMP", d.key), d.at
			for i := range damages {
				s.Must(t, "RESTORE", d.key, "0", whole, "REPLACE")
				d.damage(t)
				d.at = newest.Add(pick(d.r, 0, time.Minute, 50*time.Minute, 70*time.Minute, 48*time.Hour, -10*time.Minute, -48*time.Hour))
				d.check(t, i)
				d.check(t, i) // reads the header that the first call wrote
			}
		})
	}
}

// TestGapBehindTheNewestEntry puts a gap in front of the newest entry that would place it in the
// far future. The wait of a denied attempt ends there, if nothing compares the two.
func TestGapBehindTheNewestEntry(t *testing.T) {
	s := redistest.Start(t)
	l := limiter(t, newEngine(t, s.Conn(t)), "gap", weir.AllOrNothing, perUser(30, time.Hour))
	for i := range 20 {
		mustAllow(t, l.At(nine.Add(time.Duration(i)*time.Minute/2)), weir.K("u"))
	}
	key := weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
	header := []byte(s.Must(t, "HGET", key, "h"))
	copy(header[28+4:], "\x78\xff\xff\xff\xff\xff\xff\xff") // the second of the entries of four bytes
	s.Must(t, "HSET", key, "h", string(header))
	_, err := l.At(nine.Add(20*time.Minute)).AllowN(ctx, weir.K("u"), 15)
	assert.Error(t, err, weirredis.ErrState, strconv.QuoteToASCII(key))
}

// damaged is a history that is damaged again and again.
type damaged struct {
	s    *redistest.Server
	e    *weirredis.Engine
	p    *engine.Compiled
	key  string
	r    *rand.Rand
	at   time.Time
	done string // the damage
}

// do makes a call at d.at. It is soon cancelled.
func (d *damaged) do(c engine.Call) (engine.Result, error) {
	c.Rules, c.Key, c.At, c.Given = d.p, weir.K("u"), d.at.UnixMicro(), true
	soon, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	calls := []engine.Call{c}
	d.e.Do(soon, calls)
	return calls[0].Result, calls[0].Err
}

// damage changes a few bits or bytes of one field.
func (d *damaged) damage(t *testing.T) {
	field := "h"
	if all := d.s.List(t, "HKEYS", d.key); d.r.IntN(3) == 0 {
		field = all[d.r.IntN(len(all))]
	}
	text := []byte(d.s.Must(t, "HGET", d.key, field))
	place := func() int { return d.r.IntN(min(len(text), pick(d.r, 16, 62, 200))) } // mostly in the numbers before the entries
	was := fmt.Sprintf("%x", text)
	switch d.r.IntN(6) {
	case 0, 1:
		text[place()] ^= 1 << d.r.IntN(8)
	case 2:
		for range 3 {
			text[place()] ^= 1 << d.r.IntN(8)
		}
	case 3:
		text[place()] = pick(d.r, 0, 0xff, byte(d.r.IntN(256)))
	case 4:
		begin := place()
		for i := begin; i < min(begin+7, len(text)); i++ {
			text[i] = pick(d.r, 0, 0xff, byte(d.r.IntN(256)))
		}
	case 5:
		text = text[:d.r.IntN(len(text))]
	}
	d.done = fmt.Sprintf("field %s was %s, is %x", field, was, text)
	d.s.Must(t, "HSET", d.key, field, string(text))
}

// check makes a random call, and fails the test unless its outcome is permitted.
func (d *damaged) check(t *testing.T, i int) {
	t.Helper()
	c := engine.Call{N: pick[int64](d.r, 1, 1, 1, 7, 300)}
	switch d.r.IntN(8) {
	case 0:
		c.Op, c.States = engine.Peek, make([]engine.State, 1)
	case 1:
		c.States = make([]engine.State, 1)
	case 2:
		c.Op = engine.Record
	case 3:
		c.Op, c.From = engine.Refund, engine.Oldest
	case 4:
		c.Op, c.From = engine.Refund, nine.Add(time.Duration(d.r.IntN(60))*time.Minute/2).UnixMicro()
	case 5:
		if d.p.Limits[0].Kind != engine.KindBucket { // which has no counts
			c.Op, c.From = engine.Count, time.Hour.Microseconds()
		}
	case 6:
		c.Op = engine.Probe
		if d.r.IntN(2) == 0 {
			c.Op, c.N, c.From = engine.Block, 0, pick(d.r, 0, time.Minute.Microseconds())
		}
	}
	before := d.fields(t)
	d.inspect(t, before)
	got, err := d.do(c)
	about := fmt.Sprintf("damage %d (seed 1, 9), %s\nop %d of %d from %d at %d: got %+v, %v", i, d.done, c.Op, c.N, c.From, d.at.UnixMicro(), got, err)
	switch {
	case errors.Is(err, weir.ErrOverflow) && c.Op == engine.Record:
	case err != nil && (!errors.Is(err, weirredis.ErrState) || !strings.Contains(err.Error(), strconv.QuoteToASCII(d.key))):
		t.Fatalf("%s; want an answer, or ErrState with the key", about)
	case err == nil && (got.Granted < 0 || got.Granted > c.N && c.Op != engine.Count || got.Granted > 2*engine.MaxUnits || got.Remaining > d.p.Limits[0].Capacity || got.RetryAfter < 0 || got.ResetAfter < 0):
		t.Fatalf("%s; want a possible answer", about)
	}
	if err != nil && !maps.Equal(d.fields(t), before) {
		t.Fatalf("%s: it was changed", about)
	}
}

// inspect inspects the key, and fails the test unless the outcome is permitted.
func (d *damaged) inspect(t *testing.T, before map[string]string) {
	t.Helper()
	peek := engine.Call{Rules: d.p, Key: weir.K("u"), Op: engine.Peek, N: 1, At: d.at.UnixMicro(), Given: true}
	var all []engine.History
	peek.Histories = &all
	got, err := do(d.e, peek)
	switch {
	case err != nil && (!errors.Is(err, weirredis.ErrState) || !strings.Contains(err.Error(), strconv.QuoteToASCII(d.key))):
		t.Fatalf("%s: inspected at %d: %v; want an answer, or ErrState with the key", d.done, peek.At, err)
	case err == nil && (len(all) != 1 || len(all[0].Entries) > engine.MaxEntries || got.RetryAfter < 0):
		t.Fatalf("%s: inspected at %d: %+v, %+v; want a possible answer", d.done, peek.At, got, all)
	case !maps.Equal(d.fields(t), before):
		t.Fatalf("%s: inspected at %d: it was changed", d.done, peek.At)
	}
}

// fields returns what is stored.
func (d *damaged) fields(t *testing.T) map[string]string {
	m, all := map[string]string{}, d.s.List(t, "HGETALL", d.key)
	for i := 0; i < len(all); i += 2 {
		m[all[i]] = all[i+1]
	}
	return m
}

// mustDo makes a call, which must not fail.
func mustDo(t testing.TB, e engine.Engine, c engine.Call) engine.Result {
	t.Helper()
	r, err := do(e, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustAllow decides an attempt of one unit.
func mustAllow(t testing.TB, l *weir.Limiter, k weir.Key) weir.Decision {
	t.Helper()
	d, err := l.Allow(ctx, k)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mustAllowN decides an attempt of n units.
func mustAllowN(t testing.TB, l *weir.Limiter, k weir.Key, n int64) weir.Decision {
	t.Helper()
	d, err := l.AllowN(ctx, k, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mustAllowOnce decides an attempt with an idempotency key.
func mustAllowOnce(t testing.TB, l *weir.Limiter, k weir.Key, n int64, id string) weir.Decision {
	t.Helper()
	d, err := l.AllowOnce(ctx, k, n, id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mustDecide decides a request.
func mustDecide(t testing.TB, l *weir.Limiter, k weir.Key, r weir.Request) weir.Decision {
	t.Helper()
	d, err := l.Decide(ctx, k, r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mustPeek decides an attempt and charges nothing.
func mustPeek(t testing.TB, l *weir.Limiter, k weir.Key, n int64) weir.Decision {
	t.Helper()
	d, err := l.Peek(ctx, k, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
