package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// opening, settling and extending are calls of a reservation.
func opening(n int64, ttl time.Duration) engine.Call {
	return engine.Call{N: n, TTL: ttl.Microseconds()}
}

func settling(n int64) engine.Call { return engine.Call{Op: engine.Settle, N: n} }

func extending(n, from int64) engine.Call {
	return engine.Call{Op: engine.Extend, N: n, From: from}
}

// reserving makes the calls of one reservation under rules with a rate, a fixed cost, a bucket and
// a concurrency limit.
type reserving struct {
	e     engine.Engine
	rules *engine.Compiled
}

func newReserving(t *testing.T, e engine.Engine, name string) reserving {
	t.Helper()
	cost := perUser(1000, time.Hour)
	cost.Name, cost.Cost = "calls", 1
	slow := bucket(1000, time.Hour, 1000)
	slow.Name = "slow"
	limits := []weir.Limit{perUser(1000, time.Hour), cost, slow, holding(1000)}
	return reserving{e, limiter(t, e, name, weir.AllOrNothing, limits...).Compiled()}
}

// settled is a reservation that was settled.
func settled(units, actual int64) engine.Reservation {
	return engine.Reservation{Units: units, Settled: true, Actual: actual}
}

// holding is a concurrency limit.
func holding(max int64) weir.Limit {
	return weir.AtOnce(max, time.Minute, "user").Named("held")
}

// do makes a call with the id, and returns the reservation after it.
func (r reserving) do(c engine.Call) (engine.Result, engine.Reservation, error) {
	var after engine.Reservation
	c.Rules, c.Key, c.Reservation = r.rules, weir.K("u"), &after
	if c.Op != engine.Peek {
		c.ID = "id"
	}
	result, err := do(r.e, c)
	return result, after, err
}

// open opens a reservation of five units that lives for ten minutes.
func (r reserving) open(t *testing.T) {
	t.Helper()
	_, after, err := r.do(opening(5, 10*time.Minute))
	if err != nil || after.Units != 5 {
		t.Fatalf("opened %+v, %v", after, err)
	}
}

// used returns the units that each limit has used.
func (r reserving) used(t *testing.T) string {
	t.Helper()
	states := make([]engine.State, len(r.rules.Limits))
	peek := engine.Call{Rules: r.rules, Key: weir.K("u"), Op: engine.Peek, N: 1, States: states}
	mustDo(t, r.e, peek)
	var used []int64
	for _, s := range states {
		used = append(used, s.Used)
	}
	return fmt.Sprint(used)
}

// keys returns the keys of the histories, and of the record at the end.
func (r reserving) keys() []string {
	record := weirredis.OperationKey(r.rules, weir.K("u"), "id", false)
	return append(weirredis.Keys(r.rules, weir.K("u"), false), record)
}

// dump returns all that is stored for the reservation.
func (r reserving) dump(t *testing.T, s *redistest.Server) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, key := range r.keys() {
		m[key] = s.Must(t, "DUMP", key)
	}
	return m
}

// TestReservationsTakeOneScript: each operation of a reservation is one script on all histories and
// the record. The record lives until the end of its life, and a minute after a settlement.
func TestReservationsTakeOneScript(t *testing.T) {
	redistest.OnEachVersion(t, testReservationsTakeOneScript)
}

func testReservationsTakeOneScript(t *testing.T, v redistest.Version) {
	s := v.Start(t)
	r := newReserving(t, newEngine(t, s.Conn(t)), "steps")
	mustDo(t, r.e, engine.Call{Rules: r.rules, Key: weir.K("other"), N: 1}) // loads the script
	record := r.keys()[4]
	minute, least := time.Minute, 50*time.Second
	for _, step := range []struct {
		about string
		call  engine.Call
		used  string
		lives time.Duration // of the record
		after engine.Reservation
	}{
		{"opened", opening(5, minute), "[5 1 5 5]", minute, engine.Reservation{Units: 5}},
		{"repeated", opening(5, time.Hour), "[5 1 5 5]", least, engine.Reservation{Units: 5}},
		{"extended", extending(0, engine.Unknown), "[5 1 5 5]", minute, engine.Reservation{Units: 5}},
		{"extended by units", extending(3, 5), "[8 1 8 5]", minute, engine.Reservation{Units: 8}},
		{"extended again", extending(3, 5), "[8 1 8 5]", least, engine.Reservation{Units: 8}},
		{"settled", settling(6), "[6 1 6 0]", minute, settled(8, 6)},
		{"settled again", settling(6), "[6 1 6 0]", least, settled(8, 6)},
	} {
		scripts, before := commands(t, s, "evalsha"), time.Now()
		_, after, err := r.do(step.call)
		if n := commands(t, s, "evalsha") - scripts; err != nil || n != 1 {
			t.Fatalf("%s: %d scripts, %v", step.about, n, err)
		}
		if after.ExpiresAt == 0 || (after.HeldUntil == 0) != after.Settled {
			t.Errorf("%s: %+v has no end, or no hold", step.about, after)
		}
		after.ExpiresAt, after.HeldUntil = 0, 0
		assert.Equal(t, after, step.after, "%s: reservation", step.about)
		assert.Equal(t, r.used(t), step.used, "%s: units in use", step.about)
		if got := ttl(t, s, record); shorter(got, step.lives, before) || got > 2*time.Minute {
			t.Errorf("%s: the record lives %v, want %v", step.about, got, step.lives)
		}
	}
}

// TestErrorsOfReservations: each error names its reason and the numbers, and changes nothing.
func TestErrorsOfReservations(t *testing.T) {
	s := redistest.Shared(t)
	e := newEngine(t, redisConn(t))
	r := newReserving(t, e, "reasons")
	s.Must(t, append([]string{"DEL"}, r.keys()...)...)
	fails := func(c engine.Call, want error, texts ...string) {
		t.Helper()
		before := r.dump(t, s)
		_, after, err := r.do(c)
		assert.Error(t, err, want, texts...)
		assert.Equal(t, after, engine.Reservation{}, "the reservation of an error")
		if errors.Is(err, weir.ErrUnavailable) || !maps.Equal(r.dump(t, s), before) {
			t.Errorf("%v: it is unavailable, or something was changed", err)
		}
	}
	fails(settling(1), engine.ErrExpired, "it is unknown, or was settled more than a minute ago")
	fails(extending(0, 0), engine.ErrExpired, "it is unknown")
	r.open(t)
	fails(engine.Call{N: 5}, engine.ErrInput, "it names a reservation of 5 units, and now an attempt of 5 units")
	fails(opening(4, time.Minute), engine.ErrInput, "it names a reservation of 5 units, and now a reservation of 4 units")
	fails(extending(1, 4), engine.ErrInput, "the reservation has 5 units, not 4; extend it from")
	fails(extending(engine.MaxUnits, engine.Unknown), engine.ErrInput, "the reservation has 5 units, and 2251799813685247 more pass 2251799813685247; take fewer")
	fails(settling(engine.MaxUnits), engine.ErrOverflow, "counts 5 units; with more it would pass")
	for _, c := range []engine.Call{extending(3, 5), extending(2, 8)} {
		if _, _, err := r.do(c); err != nil {
			t.Fatal(err)
		}
	}
	fails(extending(3, 5), engine.ErrInput, "the reservation has 10 units, not 5;") // an earlier one
	fails(extending(3, 7), engine.ErrInput, "the reservation has 10 units, not 7;") // of other units
	mustDo(t, e, engine.Call{Op: engine.Reset, Rules: r.rules, Key: weir.K("u")})
	fails(settling(engine.AllUnits), engine.ErrExpired, "its hold has ended; settle it with a number")
	fails(extending(0, 0), engine.ErrExpired, "its hold has ended")
	if result, after, err := r.do(settling(10)); err != nil || result.Granted != 0 || !after.Settled {
		t.Errorf("settled %+v, %+v, %v", result, after, err)
	}
	fails(settling(6), engine.ErrSettled, "with 10 units, and now 6")
	fails(extending(0, 0), engine.ErrSettled, "with 10 units")

	// The record of an operation without a time to live is no reservation.
	s.Must(t, append([]string{"DEL"}, r.keys()...)...)
	if _, _, err := r.do(engine.Call{N: 5}); err != nil {
		t.Fatal(err)
	}
	fails(settling(1), engine.ErrExpired, "it is unknown")
	fails(opening(5, time.Minute), engine.ErrInput, "it names an attempt of 5 units, and now a reservation of 5 units")
}

// TestForeignReservationIsNotChanged: foreign or damaged data under the key of a reservation are an
// error that names this key. Nothing is changed.
func TestForeignReservationIsNotChanged(t *testing.T) {
	s := redistest.Shared(t)
	r := newReserving(t, newEngine(t, redisConn(t)), "foreign")
	record := r.keys()[4]
	s.Must(t, append([]string{"DEL"}, r.keys()...)...)
	r.open(t)
	if _, _, err := r.do(extending(2, 5)); err != nil {
		t.Fatal(err)
	}
	whole := s.Must(t, "GET", record)
	begin := 76 + int(whole[75]) // of the reservation
	assert.Equal(t, len(whole), begin+66+45, "bytes of the record")
	damaged := func(at int, bytes string) []string {
		return []string{"SET", record, whole[:at] + bytes + whole[at+len(bytes):]}
	}
	commands := map[string][]string{
		"another version":             damaged(0, "\x02"),
		"cut off":                     {"SET", record, whole[:len(whole)-1]},
		"cut off in the reservation":  {"SET", record, whole[:begin+20]},
		"too long":                    {"SET", record, whole + "x"},
		"an extension of other bytes": {"SET", record, whole[:begin+65] + "\x01x"},
		"a hash":                      {"HSET", record, "f", "v"},
		"an instant beyond all":       damaged(39, "\xff"),
		"a hold before all instants":  damaged(begin+28, "\xf0"),
		"a settlement below open":     damaged(begin+43, "\xf0"),
	}
	for i, at := range []int{0, 7, 14, 21, 36, 51, 58} {
		commands[fmt.Sprint("number ", i, " beyond all")] = damaged(begin+at, "\xff")
	}
	for about, command := range commands {
		s.Must(t, "DEL", record)
		s.Must(t, command...)
		before := r.dump(t, s)
		for _, c := range []engine.Call{settling(5), extending(0, 0), extending(2, 5), opening(5, time.Minute)} {
			_, _, err := r.do(c)
			assert.Error(t, err, weirredis.ErrState, "under "+strconv.Quote(record)+": ")
			if !maps.Equal(r.dump(t, s), before) {
				t.Errorf("%s, op %d: something was changed", about, c.Op)
			}
		}
	}
}

// TestDamagedHistoryStopsReservations damages the history of one limit: a settlement and an
// extension change no other history, and not the record (R7).
func TestDamagedHistoryStopsReservations(t *testing.T) {
	s := redistest.Shared(t)
	r := newReserving(t, newEngine(t, redisConn(t)), "stops")
	keys := r.keys()
	for i, bad := range keys[:4] {
		s.Must(t, append([]string{"DEL"}, keys...)...)
		r.open(t)
		s.Must(t, "HSET", bad, "h", "\x01x")
		before := r.dump(t, s)
		for _, c := range []engine.Call{settling(3), settling(9), extending(0, 0), extending(2, 5)} {
			_, _, err := r.do(c)
			assert.Error(t, err, weirredis.ErrState, "under "+strconv.Quote(bad)+": ")
			if !maps.Equal(r.dump(t, s), before) {
				t.Errorf("limit %d is damaged, op %d of %d: something was changed", i, c.Op, c.N)
			}
		}
	}
}

// losing loses the replies of some calls after the server has decided them.
type losing struct {
	weirredis.Conn
	lose bool
}

func (c *losing) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	text, err := c.Conn.Eval(ctx, s, keys, args)
	if c.lose && err == nil {
		return "", errors.New("lost")
	}
	return text, err
}

// TestLostAnswersOfReservations: an operation without its reply has an unknown outcome. Repeated,
// it gets the first result, and nothing changes.
func TestLostAnswersOfReservations(t *testing.T) {
	s := redistest.Shared(t)
	conn := &losing{Conn: redisConn(t)}
	r := newReserving(t, newEngine(t, conn), "lost")
	s.Must(t, append([]string{"DEL"}, r.keys()...)...)
	for _, c := range []engine.Call{
		opening(5, 10*time.Minute),
		extending(3, 5),
		settling(6),
		settling(6),
	} {
		conn.lose = true
		_, after, err := r.do(c)
		assert.Error(t, err, weir.ErrOutcomeUnknown)
		assert.Equal(t, after, engine.Reservation{}, "op %d: the reservation of an unknown outcome", c.Op)
		conn.lose = false
		before := r.dump(t, s)
		again, after, err := r.do(c)
		if err != nil || !again.Replayed || after.Units == 0 || !maps.Equal(r.dump(t, s), before) {
			t.Errorf("op %d: got %+v, %+v, %v; want the first result, and no change", c.Op, again, after, err)
		}
	}
	assert.Equal(t, r.used(t), "[6 1 6 0]", "units in use")
}

// TestReservationsAtMaxmemory: a server at its maxmemory settles and extends nothing.
func TestReservationsAtMaxmemory(t *testing.T) {
	redistest.OnEachVersion(t, func(t *testing.T, v redistest.Version) {
		s := v.Start(t)
		r := newReserving(t, newEngine(t, s.Conn(t)), "full")
		r.open(t)
		s.Must(t, "CONFIG", "SET", "maxmemory", "1")
		before := r.dump(t, s)
		for _, c := range []engine.Call{settling(3), settling(5), settling(7), extending(0, 0), extending(2, 5)} {
			_, _, err := r.do(c)
			assert.Error(t, err, weir.ErrFull, s.Addr, "OOM")
		}
		_, err := blockUser(r)
		assert.Error(t, err, weir.ErrFull, s.Addr)
		if !maps.Equal(r.dump(t, s), before) {
			t.Error("something was changed")
		}
		s.Must(t, "CONFIG", "SET", "maxmemory", "0")
		if _, after, err := r.do(settling(3)); err != nil || !after.Settled {
			t.Errorf("settled %+v, %v", after, err)
		}
	})
}

// blockUser blocks the user of the reservation for an hour.
func blockUser(r reserving) (engine.Result, error) {
	return do(r.e, engine.Call{Rules: r.rules, Key: weir.K("u"), Op: engine.Block, From: time.Hour.Microseconds()})
}

// TestReservationsOfAPeriodFollowTheServersClock opens, extends and settles with a client whose
// clock is wrong by years (R3).
func TestReservationsOfAPeriodFollowTheServersClock(t *testing.T) {
	s := redistest.Start(t)
	for i, off := range []time.Duration{0, -3 * 365 * 24 * time.Hour, 50 * 365 * 24 * time.Hour} {
		e := newEngine(t, s.Conn(t))
		e.WithClock(func() time.Time { return time.Now().Add(off) })
		month := weir.Calendar(9, weir.Month, "Asia/Kathmandu", "user").Named("month")
		for _, actual := range []int64{3, 7, 9} {
			name := fmt.Sprintf("off%d.%d", actual, i)
			l := limiter(t, e, name, weir.AllOrNothing, month, holding(9))
			r := reserving{e, l.Compiled()}
			for _, c := range []engine.Call{
				opening(5, time.Minute),
				extending(0, engine.Unknown),
				extending(2, 5),
				settling(actual),
			} {
				if _, after, err := r.do(c); err != nil || after.Units == 0 {
					t.Fatalf("clock off by %v, op %d: got %+v, %v", off, c.Op, after, err)
				}
			}
			used := fmt.Sprintf("[%d 0]", max(5, actual)) // at most the newest grant is taken back
			assert.Equal(t, r.used(t), used, "clock off by %v, settled with %d: units", off, actual)
		}
	}
}

// TestReservationsShareASlot: the record and the histories of a reservation in a Cluster are in
// one slot, also under limits by other dimensions.
func TestReservationsShareASlot(t *testing.T) {
	rules, err := weir.Policy{
		Name:       "slot",
		Dimensions: []string{"tenant", "user"},
		Limits: []weir.Limit{
			weir.PerHour(5, "tenant").Named("tenant"),
			weir.PerHour(5, "user", "tenant").Named("user"),
		},
	}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	key := weir.K("acme", "ann")
	tags := map[string]bool{}
	record := weirredis.OperationKey(rules, key, "id", true)
	for _, k := range append(weirredis.Keys(rules, key, true), record) {
		tags[k[:slices.Index([]byte(k), '}')]] = true
	}
	assert.Equal(t, len(tags), 1, "hash tags %v", tags)
}

// TestSettlementEndsItsOwnHold: further units of an extension hold nothing. A settlement leaves the
// hold of another attempt of the same instant.
func TestSettlementEndsItsOwnHold(t *testing.T) {
	s := redistest.Shared(t)
	r := newReserving(t, newEngine(t, redisConn(t)), "own")
	s.Must(t, append([]string{"DEL"}, r.keys()...)...)
	at := time.Now().UnixMicro() // as the clock of the peek afterwards
	other := engine.Call{Rules: r.rules, Key: weir.K("u"), N: 3, At: at, Given: true}
	mustDo(t, r.e, other)
	for _, c := range []engine.Call{opening(5, time.Minute), extending(2, 5), settling(7)} {
		c.At, c.Given = at, true
		if _, _, err := r.do(c); err != nil {
			t.Fatal(err)
		}
	}
	assert.Equal(t, r.used(t), "[10 2 10 3]", "units in use")
}

// TestExtensionReadsItsHoldFirst: the sum of a history of holds is damaged, so that only the new hold
// notices it. An extension has not begun to write then (R7). If even that finds the damage only
// after the end of the old hold, the outcome is unknown (R15).
func TestExtensionReadsItsHoldFirst(t *testing.T) {
	s := redistest.Shared(t)
	r := newReserving(t, newEngine(t, redisConn(t)), "readsfirst")
	keys := r.keys()
	at := func(second int64) int64 { return nine.UnixMicro() + second*1_000_000 }
	for _, late := range []bool{false, true} {
		s.Must(t, append([]string{"DEL"}, keys...)...)
		hold := func(second int64) {
			c := engine.Call{Rules: r.rules, Key: weir.K("u"), N: 1, At: at(second), Given: true}
			mustDo(t, r.e, c)
		}
		for i := range int64(7) { // all have ended at the extension, and the first before that
			hold(i)
		}
		open, extend := opening(5, 10*time.Minute), extending(0, 0)
		open.At, open.Given, extend.At, extend.Given = at(50), true, at(66), true
		if _, _, err := r.do(open); err != nil {
			t.Fatal(err)
		}
		hold(60)
		header, units := s.Must(t, "HGET", keys[3], "h"), "\x06" // of all entries
		if late {
			units = "\x07"
		}
		s.Must(t, "HSET", keys[3], "h", header[:26]+units+header[27:])
		before := r.dump(t, s)
		_, _, err := r.do(extend)
		if late {
			assert.Error(t, err, weir.ErrOutcomeUnknown, "a sum of units is damaged")
			continue
		}
		assert.Error(t, err, weirredis.ErrState, "a sum of units is damaged")
		if !maps.Equal(r.dump(t, s), before) {
			t.Error("something was changed")
		}
	}
}

// TestLifeReachesTheRenewedHold: a hold can be longer than the life, if the policy has changed. An
// extension renews the life for as long as the hold.
func TestLifeReachesTheRenewedHold(t *testing.T) {
	s := redistest.Shared(t)
	r := newReserving(t, newEngine(t, redisConn(t)), "reaches")
	s.Must(t, append([]string{"DEL"}, r.keys()...)...)
	open, extend := opening(5, time.Second), extending(0, 0)
	open.At, open.Given, extend.At, extend.Given = nine.UnixMicro(), true, nine.UnixMicro(), true
	for i, c := range []engine.Call{open, extend} {
		_, after, err := r.do(c)
		lives := time.Duration(after.ExpiresAt-nine.UnixMicro()) * time.Microsecond
		if want := []time.Duration{time.Second, time.Minute}[i]; err != nil || lives != want {
			t.Errorf("op %d: it lives %v, %v, want %v", c.Op, lives, err, want)
		}
	}
}

// TestExtensionsFeelTheirOwnBlocks: an extension feels the blocks of the limits from which it takes
// units, and those only: it is denied by them, and moved to their beginning (R2, R20). Settlements
// feel none.
func TestExtensionsFeelTheirOwnBlocks(t *testing.T) {
	s := redistest.Shared(t)
	r := newReserving(t, newEngine(t, redisConn(t)), "feels")
	at := func(ms int64) int64 { return nine.UnixMicro() + 1000*ms }
	for _, c := range []struct {
		blocked int // index of the limit
		call    engine.Call
		at      int64 // milliseconds
		denied  bool
	}{
		{0, extending(2, 5), 600, true},
		{2, extending(2, 5), 600, true},
		{1, extending(2, 5), 100, false}, // a cost
		{3, extending(2, 5), 100, false}, // a hold
		{0, extending(0, 0), 100, false},
		{2, extending(0, 0), 100, false},
		{0, settling(3), 100, false},
		{3, settling(5), 100, false},
		{0, settling(9), 100, false},
	} {
		keys := r.keys()
		s.Must(t, append([]string{"DEL"}, keys...)...)
		open := opening(5, time.Minute)
		open.At, open.Given = at(0), true
		if _, _, err := r.do(open); err != nil {
			t.Fatal(err)
		}
		header := s.Must(t, "HGET", keys[c.blocked], "h")
		block := blockOf(time.UnixMicro(at(600)), time.Second)
		s.Must(t, "HSET", keys[c.blocked], "h", block+header)
		c.call.At, c.call.Given = at(100), true
		got, _, err := r.do(c.call)
		if err != nil || got.At.UnixMicro() != at(c.at) || (got.Blocked > 0) != c.denied {
			t.Errorf("limit %d is blocked, op %d of %d: got %+v, %v; want it at %d ms, denied: %t",
				c.blocked, c.call.Op, c.call.N, got, err, c.at, c.denied)
		}
		kept := s.Must(t, "HGET", keys[c.blocked], "h")
		assert.Equal(t, kept[:15], block, "op %d: the block afterwards", c.call.Op)
	}
}
