package memory

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// recorder is a journal that keeps copies of all changes, and of those of a dump between them.
type recorder struct {
	mu    sync.Mutex
	steps []Change
}

func (r *recorder) Append(changes []Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range changes {
		r.steps = append(r.steps, changes[i].copied())
	}
}

// copied returns a copy that stays valid.
func (c *Change) copied() Change {
	copied := *c
	copied.Key, copied.Entries, copied.limit = append([]byte{}, c.Key...), append([]Entry{}, c.Entries...), nil
	copied.Ahead = append([]Entry{}, c.Ahead...)
	if c.Operation != nil {
		o := *c.Operation
		if o.Reservation != nil {
			r := *o.Reservation
			o.Reservation = &r
		}
		copied.Operation = &o
	}
	return copied
}

func (r *recorder) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps)
}

// newKept returns a Memory that keeps the histories of all limits for one time, however
// windows change. Otherwise a history that a sweep removed could count again in one that
// was not swept, after its window became longer (R12).
func newKept(o Options) *Memory {
	m := New(o)
	for i := range 16 {
		for kind := engine.KindRolling; kind <= engine.KindConcurrency; kind++ {
			for _, dimensions := range []string{"", "\x00user", "\x00path\x00user"} {
				m.table.Group(fmt.Sprint("p\x00l", i, "\x00", kind, dimensions), (30 * time.Hour).Microseconds())
			}
		}
	}
	return m
}

// redone returns a Memory made of the steps.
func redone(t *testing.T, steps []Change) *Memory {
	t.Helper()
	m := newKept(Options{})
	for _, c := range steps {
		if err := m.Apply(&c); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
	}
	checkWhole(t, m)
	return m
}

// dump visits everything, a few histories at a time, and calls between before each step.
func dump(m *Memory, n int, between func(), visit func(*Change)) {
	p := DumpPlace{}
	for more := true; more; {
		between()
		more = m.Dump(&p, n, m.Clock(), visit)
	}
}

// remembered is an operation as a dump has it.
type remembered struct {
	Operation
	Virtual bool
}

// content returns the histories and known operations of m by their names.
func content(m *Memory) map[string]any {
	m.Sweep()
	all := map[string]any{}
	dump(m, 4, func() {}, func(c *Change) {
		if c.Kind == Remember {
			all["o"+c.Operation.Name] = remembered{*c.copied().Operation, c.Virtual}
			return
		}
		h := c.copied()
		h.Limit = 0 // a number in m
		if h.Kind == Block {
			all["b"+h.Name+"\x00"+string(h.Key)] = h
			return
		}
		all["h"+h.Name+"\x00"+string(h.Key)] = h
	})
	return all
}

// kindsOf has limits of all kinds. Its policies share their names, so that limits change
// while they are in use (R12).
func kindsOf(r *rand.Rand) policy {
	p := policyOf(r, 1+r.IntN(3)*r.IntN(3))
	for i := range p.Limits {
		l := &p.Limits[i]
		l.Window = (l.Window / 10).Truncate(time.Millisecond) + time.Millisecond
		l.MinInterval = (l.MinInterval / 10).Truncate(time.Millisecond)
		switch kind := engine.Kind(r.IntN(6)); {
		case kind == engine.KindConcurrency && p.Mode == engine.CountDenied:
		case kind == engine.KindBucket:
			l.Kind, l.Cells, l.Max = engine.KindBucket, 0, 1+l.Max
		case kind == engine.KindFixed && r.IntN(2) == 0:
			l.Kind, l.Cells, l.MinInterval, l.Window, l.Period = kind, 0, 0, 0, engine.Hour
		case kind <= engine.KindConcurrency:
			l.Kind = kind
			if kind != engine.KindRolling {
				l.Cells = 0
			}
		}
		if p.Mode != engine.Partial && r.IntN(5) == 0 {
			l.Cost = 1 + r.Int64N(3)
		}
		if r.IntN(3) == 0 {
			l.Block = time.Duration(1+r.IntN(500)) * time.Millisecond
		}
	}
	return p
}

// actOnce makes a call with an idempotency key, often one that was used before.
func actOnce(r *rand.Rand, l *limiter) {
	k, id := keyOf(r.IntN(12), len(l.rules.Dimensions)), fmt.Sprint(r.IntN(40))
	if r.IntN(3) == 0 {
		l.do(k, engine.Call{Op: engine.Refund, From: time.Now().UnixMicro(), N: 1, ID: id})
		return
	}
	l.AllowOnce(k, 1, id)
}

// actOnState makes a call on a reservation or a block.
func actOnState(r *rand.Rand, l *limiter) {
	k, id := keyOf(r.IntN(12), len(l.rules.Dimensions)), fmt.Sprint("r", r.IntN(10))
	if r.IntN(3) == 0 {
		l = l.At(time.Now().Add(time.Duration(r.IntN(1000)-500) * time.Millisecond))
	}
	switch r.IntN(8) {
	case 0, 1, 2:
		l.do(k, engine.Call{N: 1 + r.Int64N(3), ID: id, TTL: 1 + r.Int64N(2_000_000)})
	case 3, 4:
		l.do(k, engine.Call{Op: engine.Settle, N: r.Int64N(6) - 1, ID: id})
	case 5, 6:
		l.do(k, engine.Call{Op: engine.Extend, N: r.Int64N(3), From: engine.Unknown, ID: id})
	case 7:
		l.do(k, engine.Call{Op: engine.Block, From: r.Int64N(500_000) * r.Int64N(2)})
	}
}

// mayWait reports whether attempts of the limiter may wait (R18).
func (l *limiter) mayWait() bool {
	isHold := func(l engine.Limit) bool { return l.Kind == engine.KindConcurrency }
	return l.rules.Mode != engine.CountDenied && !slices.ContainsFunc(l.rules.Limits, isHold)
}

// actAhead makes a call that waits, or cancels one of the appointments of a key.
func actAhead(r *rand.Rand, l *limiter, starts map[int]int64) {
	i := r.IntN(12)
	k := keyOf(i, len(l.rules.Dimensions))
	if r.IntN(4) == 0 || !l.mayWait() {
		l.do(k, engine.Call{Op: engine.Refund, N: 1 + r.Int64N(30), From: starts[i]})
		return
	}
	c := engine.Call{N: 1 + r.Int64N(1+r.Int64N(60)), MaxWait: r.Int64N(5_000_000)}
	if r.IntN(3) == 0 {
		c.ID, c.TTL = fmt.Sprint("r", r.IntN(10)), r.Int64N(2)*2_000_000
	}
	if d, err := l.do(k, c); err == nil && (d.StartAfter > 0 || r.IntN(4) == 0) {
		starts[i] = d.At.Add(d.StartAfter).UnixMicro()
	}
}

// actTogether charges several keys together.
func actTogether(r *rand.Rand, l *limiter) {
	calls := make([]engine.Call, 1+r.IntN(3))
	for i := range calls {
		calls[i] = engine.Call{Rules: l.rules, Key: keyOf(r.IntN(12), len(l.rules.Dimensions)), N: 1 + r.Int64N(2)}
	}
	engine.Together(ctx, l.memory, calls)
}

// TestJournalMakesAnEqualMemory: changes that are made again in the order of the journal
// lead to the same histories and operations. So do those from the beginning of a dump on,
// with the dump between them, while other callers go on. All histories are whole, with caps and
// without, and all memory is given back.
func TestJournalMakesAnEqualMemory(t *testing.T) {
	for seed := uint64(0); seed < uint64(race.Fewer(40)) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			var journal recorder
			m := newKept(Options{Journal: &journal, MaxKeys: int64(seed%3) * 700, MaxBytes: int64(seed%2) << 19})
			var began int
			for round := range 4 {
				var callers sync.WaitGroup
				for range 3 {
					l := m.on(kindsOf(r))
					mine := rand.New(rand.NewPCG(r.Uint64(), 0))
					starts := map[int]int64{}
					callers.Go(func() {
						for range 300 {
							actAtRandom(mine, l)
							if mine.IntN(3) == 0 {
								actAhead(mine, l, starts)
							}
							if mine.IntN(10) == 0 {
								actOnce(mine, l)
							}
							if mine.IntN(5) == 0 {
								actTogether(mine, l)
							}
							if mine.IntN(5) == 0 {
								actOnState(mine, l)
							}
						}
					})
				}
				if round == 2 {
					began = journal.len()
					dump(m, 1+r.IntN(20), func() { time.Sleep(time.Microsecond) }, func(c *Change) { journal.Append([]Change{*c}) })
				}
				callers.Wait()
				checkWhole(t, m)
			}
			if len(journal.steps) < 500 || began == 0 {
				t.Fatalf("seed %d: %d changes, the dump began at %d", seed, len(journal.steps), began)
			}
			want := content(m)
			compareContent(t, fmt.Sprint("seed ", seed, ", from the beginning"), content(redone(t, journal.steps)), want)
			compareContent(t, fmt.Sprint("seed ", seed, ", from the dump"), content(redone(t, journal.steps[began:])), want)
			checkEmptied(t, m)
		})
	}
}

func compareContent(t *testing.T, from string, got, want map[string]any) {
	t.Helper()
	all := maps.Clone(got)
	maps.Copy(all, want)
	for name := range all {
		if g, w := got[name], want[name]; !reflect.DeepEqual(g, w) {
			t.Errorf("%s: %.60q\ngot  %.500v\nwant %.500v", from, name, described(g), described(w))
			return
		}
	}
}

// TestJournalOfALongerWindow: a policy with a longer window is reported once, and Apply keeps the
// histories for it (R12).
func TestJournalOfALongerWindow(t *testing.T) {
	var journal recorder
	m := New(Options{Journal: &journal})
	for _, window := range []time.Duration{time.Second, time.Hour, time.Hour, time.Minute} {
		l := m.on(perUser(1, window))
		mustAllow(t, l, K("a"))
	}
	assert.Equal(t, len(journal.steps), 2, "changes: that of the grant and that of the window")
	again := New(Options{})
	for _, step := range journal.steps {
		must.Do(t, again.Apply(&step))
	}
	for _, c := range content(again) {
		assert.Equal(t, c.(Change).Keep, time.Hour.Microseconds(), "kept for µs")
	}
}

// TestJournalOnTwoClocks: a refund and a settlement on the engine's clock change a bucket and a
// reservation that were made at an instant of the caller. They stay on the clock of the caller, in
// memory and in the journal (R13).
func TestJournalOnTwoClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var journal recorder
		m := newKept(Options{Journal: &journal})
		bucket := limit{Name: "l", Kind: engine.KindBucket, Max: 5, Window: time.Hour, By: []string{"user"}}
		l := m.on(policy{Name: "p", Limits: []limit{bucket}})
		then := l.At(time.Now().Add(time.Second / 2))
		granted(t, mustDo(t, then, K("refunded"), engine.Call{N: 3}))
		granted(t, mustDo(t, then, K("settled"), engine.Call{N: 3, ID: "r", TTL: 60_000_000}))
		refund := engine.Call{Op: engine.Refund, From: engine.Oldest, N: 1}
		assert.Equal(t, mustDo(t, l, K("refunded"), refund).Granted, 1, "units given back")
		settle := engine.Call{Op: engine.Settle, N: 1, ID: "r"}
		assert.Equal(t, mustDo(t, l, K("settled"), settle).Granted, 2, "units given back")
		compareContent(t, "the journal", content(redone(t, journal.steps)), content(m))
	})
}

// TestJournalOfDistantEntries: entries of one history can be further apart than the 71 minutes
// that the short form of an entry holds; Apply keeps their instants (R3).
func TestJournalOfDistantEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var journal recorder
		m := newKept(Options{Journal: &journal})
		l := m.on(perUser(100, 24*time.Hour))
		for i := range 8 {
			mustAllow(t, l, K("a"))
			time.Sleep(time.Duration(i) * 40 * time.Minute)
		}
		compareContent(t, "", content(redone(t, journal.steps)), content(m))
	})
}

// TestApplyMeetsCaps: Apply returns ErrFull at a cap.
func TestApplyMeetsCaps(t *testing.T) {
	m := New(Options{MaxKeys: 1})
	at := m.now()
	c := Change{Kind: Append, Name: "p\x00l\x00Rolling\x00user", Key: []byte("ann"), Keep: 1, At: at, End: at, Units: 1}
	must.Do(t, m.Apply(&c))
	c.Key = []byte("bob")
	assert.Error(t, m.Apply(&c), engine.ErrFull)
	c = Change{Kind: Replace, Name: c.Name, Key: c.Key, Keep: 1, At: at, Entries: []Entry{{End: at, Units: 1}}}
	assert.Error(t, m.Apply(&c), engine.ErrFull)
	c.Name += "\x00path"
	assert.Error(t, m.Apply(&c), &engine.InputError{Field: "key"}) // it does not fit
}

// TestNotBefore: the clock moves ahead only.
func TestNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		began := m.now()
		m.NotBefore(began - 5)
		assert.Equal(t, m.now(), began, "moved to the past")
		m.NotBefore(began + 5)
		time.Sleep(time.Second)
		assert.Equal(t, m.now(), began+5+1_000_000, "moved ahead by 5 µs, a second later")
	})
}

// described leaves out the key, which may be long and is in the name.
func described(step any) any {
	if h, ok := step.(Change); ok {
		h.Key = nil
		return fmt.Sprintf("%+v", h)
	}
	return fmt.Sprintf("%+v", step)
}

// TestJournalOfABatchIsOnTheEnginesClock: a batch reads the clock once, and that reading is
// no instant of the caller (R13).
func TestJournalOfABatchIsOnTheEnginesClock(t *testing.T) {
	r := &recorder{}
	l := New(Options{Journal: r}).on(perUser(5, time.Minute))
	for range 3 {
		l.memory.Do(ctx, []engine.Call{{Rules: l.rules, Key: K("a"), N: 1}, {Rules: l.rules, Key: K("a"), N: 1}})
	}
	assert.Equal(t, r.len(), 5, "changes")
	for i, step := range r.steps {
		if c := step; c.Virtual || c.Units != 1 {
			t.Errorf("change %d: %d units, at an instant of the caller: %v; want 1, on the engine's clock", i, c.Units, c.Virtual)
		}
	}
}

// TestJournalDumpIsBounded: one call visits about as many histories as requested, and all calls
// together visit each history once, whole.
func TestJournalDumpIsBounded(t *testing.T) {
	const users, entries, most = 20_000, 3, 20
	m := New(Options{})
	l := m.on(policy{Name: "p", Limits: []limit{{Name: "l", Max: engine.MaxUnits, Window: time.Hour, By: []string{"user"}}}})
	at := time.Now()
	for i := range entries {
		for user := range users {
			mustAllow(t, l.At(at.Add(time.Duration(i)*time.Microsecond)), K(fmt.Sprint(user)))
		}
	}
	p, seen := DumpPlace{}, map[string]bool{}
	for more := true; more; {
		visited := 0
		more = m.Dump(&p, most, m.Clock(), func(h *Change) {
			visited++
			if seen[string(h.Key)] || len(h.Entries) != entries {
				t.Errorf("%q: %d entries, seen before: %t", h.Key, len(h.Entries), seen[string(h.Key)])
			}
			seen[string(h.Key)] = true
		})
		if visited > 3*most {
			t.Errorf("a call visits %d histories, want about %d", visited, most)
		}
	}
	assert.Equal(t, len(seen), users, "histories in all")
}

// TestJournalDumpLocksOneHistory: callers of a known history go on while Dump waits in its
// shard for the caller of another one.
func TestJournalDumpLocksOneHistory(t *testing.T) {
	m := New(Options{})
	l := m.on(perUser(1<<40, time.Hour))
	shards, keys := map[*keytable.Shard]engine.Key{}, [2]engine.Key{} // two keys of one shard
	for i := 0; ; i++ {
		keys[0] = K(fmt.Sprint(i))
		s := shardOf(m, l, keys[0])
		if other, ok := shards[s]; ok {
			keys[1] = other
			break
		}
		shards[s] = keys[0]
	}
	for range 2 { // the second attempt needs no room
		for _, k := range keys {
			mustAllow(t, l, k)
		}
	}
	var records [1]record
	c := claim{records: records[:]}
	defer putBuffer(m.name(&c, m.Rules(l.rules).limits, &keys[0]))
	if !m.tryHold(&c) {
		t.Fatal("the history is not found")
	}
	began, done := make(chan struct{}), make(chan int)
	go func() {
		close(began)
		visited := 0
		for p := (DumpPlace{}); m.Dump(&p, 1, m.Clock(), func(*Change) { visited++ }); {
		}
		done <- visited
	}()
	<-began
	time.Sleep(20 * time.Millisecond)
	if _, err := l.Allow(keys[1]); err != nil { // or it never returns
		t.Error(err)
	}
	select {
	case <-done:
		t.Fatal("Dump does not wait for a caller of a history")
	default:
	}
	m.release(&c)
	assert.Equal(t, <-done, 2, "histories")
}

// TestDumpBesideALongerWindow: a window that becomes longer during a dump hides no history that
// counts (R12).
func TestDumpBesideALongerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		l := m.on(perUser(1, time.Second))
		const n = 1000
		for i := range n {
			l.Allow(K(fmt.Sprint(i)))
		}
		var p DumpPlace
		seen := map[string]bool{}
		visit := func(c *Change) { seen[string(c.Key)] = true }
		m.Dump(&p, 5, m.Clock(), visit)
		l = m.on(perUser(1, time.Hour))
		l.Peek(K("0"), 1) // compiles the longer window
		time.Sleep(2 * time.Second)
		for m.Dump(&p, 5, m.Clock(), visit) {
		}
		missing := 0
		for i := range n {
			if d, _ := l.Peek(K(fmt.Sprint(i)), 1); !d.Allowed && !seen[fmt.Sprint(i)] {
				missing++
			}
		}
		assert.Equal(t, missing, 0, "of %d histories that count and counted all the time, those that are not in the dump", n)
	})
}

// TestJournalOfACut: under CountDenied a change states the cap of its limit, also one of 0, which
// leaves nothing. The change after it, of another mode, has no cap (R6).
func TestJournalOfACut(t *testing.T) {
	for _, most := range []int64{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			var journal recorder
			m := newKept(Options{Journal: &journal})
			counting := policy{Name: "p", Mode: engine.CountDenied, Limits: []limit{{Name: "l0", Max: most, Window: time.Hour, By: []string{"user"}}}}
			whole := policy{Name: "p", Limits: []limit{{Name: "l1", Max: 100, Window: time.Hour, By: []string{"user"}}}}
			for range 50 { // reports are reused, most of the time
				time.Sleep(time.Millisecond)
				mustAllowN(t, m.on(counting), K("a"), 3)
				mustAllow(t, m.on(whole), K("a"))
			}
			for i, c := range journal.steps {
				if capped := i%2 == 0; c.Capped != capped || capped && c.Cap != most || !capped && c.Cap != 0 || c.End != c.At {
					t.Errorf("change %d: %+v", i, c)
				}
			}
			compareContent(t, fmt.Sprint("at most ", most), content(redone(t, journal.steps)), content(m))
		})
	}
}

// TestJournalOfSeveralUnits: the journal gets all units of an attempt that the fast path decides.
func TestJournalOfSeveralUnits(t *testing.T) {
	var r recorder
	m := New(Options{Journal: &r})
	for range 4 { // the third one finds a history with room
		granted(t, mustAllowN(t, m.on(perUser(12, time.Minute)), K("a"), 3))
	}
	compareContent(t, "the journal", content(redone(t, r.steps)), content(m))
}

// TestApplyWithoutRoomAddsNoKey: a new history whose entries find no room is not added (R13).
func TestApplyWithoutRoomAddsNoKey(t *testing.T) {
	m := New(Options{MaxBytes: 64 << 10})
	c := Change{Kind: Replace, Name: "p\x00l\x00Rolling\x00user", Key: []byte("a"), Keep: 1 << 40, At: m.now()}
	for i := range int64(50_000) {
		c.Entries = append(c.Entries, Entry{End: c.At - 50_000 + i, Units: 2})
	}
	if err := m.Apply(&c); !errors.Is(err, engine.ErrFull) || m.Len() != 0 {
		t.Errorf("50,000 entries in 64 KiB: got %v and %d histories, want ErrFull and none", err, m.Len())
	}
	checkWhole(t, m)
}

// TestDumpHoldsWhatCounts: a dump has histories that still count and all operations, also those at
// instants of callers (R13, R15).
func TestDumpHoldsWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		l := m.on(perUser(5, time.Minute))
		mustAllow(t, l, K("over"))
		time.Sleep(time.Minute)
		mustAllow(t, l, K("counts"))
		mustAllowOnce(t, l, K("once"), 1, "id")
		mustAllowOnce(t, l.At(time.UnixMicro(1_000_000_000_000_000)), K("then"), 1, "id")
		var keys []string
		operations := 0
		dump(m, 10, func() {}, func(c *Change) {
			if c.Kind == Remember {
				operations++
			} else {
				keys = append(keys, string(c.Key))
			}
		})
		slices.Sort(keys)
		if !slices.Equal(keys, []string{"counts", "once", "then"}) || operations != 2 {
			t.Errorf("it has the keys %q and %d operations", keys, operations)
		}
	})
}

// TestApplyKeepsTheLastOperation: of two operations of one name the one that is applied last stays.
func TestApplyKeepsTheLastOperation(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_000_000)
	m := New(Options{})
	for _, units := range []int64{2, 1} {
		o := Operation{Name: "x", Asked: units, Until: at.Add(time.Duration(units) * time.Hour).UnixMicro(), Granted: units, At: at.UnixMicro()}
		must.Do(t, m.Apply(&Change{Kind: Remember, Virtual: true, At: at.UnixMicro(), Operation: &o}))
	}
	visited := 0
	dump(m, 10, func() {}, func(c *Change) {
		if visited++; c.Operation.Asked != 1 {
			t.Errorf("an operation of %d units is remembered, want that of 1 unit", c.Operation.Asked)
		}
	})
	assert.Equal(t, visited, 1, "operations that are visited")
	checkEmptied(t, m)
}
