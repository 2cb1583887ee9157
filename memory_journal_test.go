package weir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/testkit/race"
)

// recorder is a journal that keeps copies of all changes, and of the histories and operations of a
// dump between them.
type recorder struct {
	mu    sync.Mutex
	steps []any
}

func (r *recorder) Append(c *Change) { r.add(*c) }

func (r *recorder) add(step any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, step)
}

func (r *recorder) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps)
}

// newKept returns a Memory that keeps the histories of all limits for one time, however
// windows change. Otherwise a history that a sweep removed could count again in one that
// was not swept, after its window became longer (R12).
func newKept(opts ...MemoryOption) *Memory {
	m := NewMemory(opts...)
	for i := range 16 {
		for kind := Rolling; kind <= Concurrency; kind++ {
			for _, dimensions := range []string{"", "\x00user", "\x00user\x00path"} {
				m.table.Group(fmt.Sprint("p\x00l", i, "\x00", kind, dimensions), (30 * time.Hour).Microseconds())
			}
		}
	}
	return m
}

// redone returns a Memory made of the steps.
func redone(t *testing.T, steps []any) *Memory {
	t.Helper()
	m := newKept()
	var parts Parts
	for _, step := range steps {
		var err error
		switch s := step.(type) {
		case Change:
			err = m.Redo(&s)
		case StoredHistory:
			if parts.Join(&s) {
				err = m.Restore(&s)
			}
		case StoredOperation:
			err = m.RestoreOperation(&s)
		}
		if err != nil {
			t.Fatalf("%+v: %v", step, err)
		}
	}
	return m
}

// dump visits everything, a few histories and so many entries at a time, and calls between before each step.
func dump(m *Memory, most int, between func(), visit func(any)) {
	p := DumpPlace{Max: most}
	copied := func(h *StoredHistory) {
		c := *h
		c.Key, c.Entries, c.limit = append([]byte{}, h.Key...), append([]StoredEntry{}, h.Entries...), nil
		visit(c)
	}
	for more := true; more; {
		between()
		more = m.Dump(&p, 4, m.Clock(), copied)
	}
	for more := true; more; {
		between()
		more = m.DumpOperations(&p, 4, func(o *StoredOperation) { visit(*o) })
	}
}

// content returns the histories and known operations of m by their names.
func content(m *Memory) map[string]any {
	m.Sweep()
	all := map[string]any{}
	dump(m, 0, func() {}, func(step any) {
		switch s := step.(type) {
		case StoredHistory:
			all["h"+s.Name+"\x00"+string(s.Key)] = s
		case StoredOperation:
			all["o"+s.Name] = s
		}
	})
	return all
}

// kindsOf has limits of all kinds. Its policies share their names, so that limits change
// while they are in use (R12).
func kindsOf(r *rand.Rand) Policy {
	p := policyOf(r, 1+r.IntN(3)*r.IntN(3))
	for i := range p.Limits {
		l := &p.Limits[i]
		l.Window = (l.Window / 10).Truncate(time.Millisecond) + time.Millisecond
		l.MinInterval = (l.MinInterval / 10).Truncate(time.Millisecond)
		switch kind := Kind(r.IntN(6)); {
		case kind == Concurrency && p.Mode == CountDenied:
		case kind == Bucket:
			l.Kind, l.Cells, l.Max = Bucket, 0, 1+l.Max
		case kind == Fixed && r.IntN(2) == 0:
			l.Kind, l.Cells, l.MinInterval, l.Window, l.Period, l.Zone = kind, 0, 0, 0, Hour, "UTC"
		case kind <= Concurrency:
			l.Kind = kind
			if kind != Rolling {
				l.Cells = 0
			}
			if kind == Concurrency {
				l.Window, l.MaxHold = 0, l.Window
			}
		}
		if p.Mode != Partial && r.IntN(5) == 0 {
			l.Cost = 1 + r.Int64N(3)
		}
	}
	return p
}

// actOnce makes a call with an idempotency key, often one that was used before.
func actOnce(r *rand.Rand, l *Limiter) {
	k, id := keyOf(r.IntN(12), len(l.Compiled().Dimensions)), fmt.Sprint(r.IntN(40))
	if r.IntN(3) == 0 {
		l.Decide(ctx, k, Request{Op: OpRefund, From: time.Now(), N: 1, ID: id})
		return
	}
	l.AllowOnce(ctx, k, 1, id)
}

// actTogether charges several keys together.
func actTogether(r *rand.Rand, l *Limiter) {
	calls := make([]Call, 1+r.IntN(3))
	for i := range calls {
		calls[i] = l.Call(keyOf(r.IntN(12), len(l.Compiled().Dimensions)), Request{N: 1 + r.Int64N(2)})
	}
	DecideTogether(ctx, l.engine, calls)
}

// TestJournalMakesAnEqualMemory: changes that are made again in the order of the journal
// lead to the same histories and operations. So do those from the beginning of a dump on,
// with the dump between them, while other callers go on.
func TestJournalMakesAnEqualMemory(t *testing.T) {
	for seed := uint64(0); seed < uint64(race.Fewer(40)) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			var journal recorder
			m := newKept(Journaled(&journal))
			var began int
			for round := range 4 {
				var callers sync.WaitGroup
				for range 3 {
					l, err := New(kindsOf(r), WithEngine(m))
					if err != nil {
						t.Fatal(err)
					}
					mine := rand.New(rand.NewPCG(r.Uint64(), 0))
					callers.Go(func() {
						for range 300 {
							actAtRandom(mine, l)
							if mine.IntN(10) == 0 {
								actOnce(mine, l)
							}
							if mine.IntN(5) == 0 {
								actTogether(mine, l)
							}
						}
					})
				}
				if round == 2 {
					began = journal.len()
					dump(m, 1+r.IntN(20), func() { time.Sleep(time.Microsecond) }, func(step any) { journal.add(step) })
				}
				callers.Wait()
			}
			changes := 0
			for _, step := range journal.steps {
				if _, ok := step.(Change); ok {
					changes++
				}
			}
			if changes < 500 || began == 0 {
				t.Fatalf("seed %d: %d changes, the dump began at %d", seed, changes, began)
			}
			want := content(m)
			compareContent(t, fmt.Sprint("seed ", seed, ", from the beginning"), content(redone(t, journal.steps)), want)
			compareContent(t, fmt.Sprint("seed ", seed, ", from the dump"), content(redone(t, journal.steps[began:])), want)
		})
	}
}

func compareContent(t *testing.T, from string, got, want map[string]any) {
	t.Helper()
	for name, w := range want {
		if g := got[name]; !reflect.DeepEqual(g, w) {
			t.Errorf("%s: %.60q\ngot  %.500v\nwant %.500v", from, name, describe(g), describe(w))
			return
		}
	}
	for name, g := range got {
		if want[name] == nil {
			t.Errorf("%s: %.60q: got %.500v, want none", from, name, describe(g))
			return
		}
	}
}

// TestJournalOfALongerWindow: a plan with a longer window is reported once, and Redo keeps the
// histories for it (R12).
func TestJournalOfALongerWindow(t *testing.T) {
	var journal recorder
	m := NewMemory(Journaled(&journal))
	for _, window := range []time.Duration{time.Second, time.Hour, time.Hour, time.Minute} {
		l := mustNew(t, perUser(1, window), WithEngine(m))
		if _, err := l.Allow(ctx, K("a")); err != nil {
			t.Fatal(err)
		}
	}
	if len(journal.steps) != 2 {
		t.Fatalf("got %d changes, want that of the grant and that of the window", len(journal.steps))
	}
	again := NewMemory()
	for _, step := range journal.steps {
		c := step.(Change)
		if err := again.Redo(&c); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range content(again) {
		if h := c.(StoredHistory); h.Keep != time.Hour.Microseconds() {
			t.Errorf("kept for %d µs, want an hour", h.Keep)
		}
	}
}

// TestRedoMeetsCaps: Redo and Restore return ErrFull at a cap.
func TestRedoMeetsCaps(t *testing.T) {
	m := NewMemory(MaxKeys(1))
	plan, err := Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 1, Window: time.Hour, By: []string{"user"}}}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	at := m.now()
	if err := m.Redo(&Change{Plan: plan, Key: K("ann"), At: at, Units: 1}); err != nil {
		t.Fatal(err)
	}
	if err := m.Redo(&Change{Plan: plan, Key: K("bob"), At: at, Units: 1}); !errors.Is(err, ErrFull) {
		t.Errorf("redo at the cap: got %v, want ErrFull", err)
	}
	h := StoredHistory{Name: "p\x00l\x00Rolling\x00user", Key: []byte("bob"), Keep: 1, Last: at, Entries: []StoredEntry{{at, 1}}}
	if err := m.Restore(&h); !errors.Is(err, ErrFull) {
		t.Errorf("restore at the cap: got %v, want ErrFull", err)
	}
	h.Name = strings.TrimSuffix(h.Name, "\x00user") + "\x00user\x00path"
	if err := m.Restore(&h); !errors.Is(err, ErrKey) {
		t.Errorf("restore of a key that does not fit: got %v, want ErrKey", err)
	}
}

// TestNotBefore: the clock moves ahead only.
func TestNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		began := m.now()
		m.NotBefore(began - 5)
		if got := m.now(); got != began {
			t.Errorf("moved to the past: got %d, want %d", got, began)
		}
		m.NotBefore(began + 5)
		time.Sleep(time.Second)
		if got := m.now(); got != began+5+1_000_000 {
			t.Errorf("moved ahead by 5 µs, a second later: got %d, want %d", got, began+5+1_000_000)
		}
	})
}

// describe leaves out the key, which may be long and is in the name.
func describe(step any) any {
	if h, ok := step.(StoredHistory); ok {
		h.Key = nil
		return fmt.Sprintf("%+v", h)
	}
	return fmt.Sprintf("%+v", step)
}

// TestJournalOfABatchIsOnTheEnginesClock: a batch reads the clock once, and that reading is
// no instant of the caller (R13).
func TestJournalOfABatchIsOnTheEnginesClock(t *testing.T) {
	r := &recorder{}
	l := mustNew(t, perUser(5, time.Minute), WithEngine(NewMemory(Journaled(r))))
	for range 3 {
		l.DecideAll(ctx, []Call{l.Call(K("a"), Request{N: 1}), l.Call(K("a"), Request{N: 1})})
	}
	if r.len() != 5 {
		t.Errorf("%d changes, want 5", r.len())
	}
	for i, step := range r.steps {
		if c := step.(Change); c.Virtual || c.Units != 1 {
			t.Errorf("change %d: %d units, at an instant of the caller: %v; want 1, on the engine's clock", i, c.Units, c.Virtual)
		}
	}
}

// TestJournalDumpIsBounded: one call visits a bounded number of entries, of one history or of
// many, and all calls together visit each entry once.
func TestJournalDumpIsBounded(t *testing.T) {
	const entries, most = 1000, 100
	m := NewMemory()
	l, err := New(Policy{Name: "p", Limits: []Limit{{Name: "l", Max: MaxUnits, Window: time.Hour, By: []string{"user"}}}}, WithEngine(m))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	for i := range entries {
		for _, user := range []string{"one", fmt.Sprint(i % 50)} {
			if _, err := l.At(at.Add(time.Duration(i)*time.Microsecond)).Allow(ctx, K(user)); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, parts, sum := DumpPlace{Max: most}, Parts{}, 0
	for more := true; more; {
		visited := 0
		more = m.Dump(&p, entries, m.Clock(), func(h *StoredHistory) {
			visited += len(h.Entries)
			if parts.Join(h) {
				sum += len(h.Entries)
			}
		})
		if visited > most+20 {
			t.Errorf("a call visits %d entries, want about %d", visited, most)
		}
	}
	if sum != 2*entries {
		t.Errorf("%d entries in all, want %d", sum, 2*entries)
	}
}

// TestJournalDumpLocksNoShard: callers of other histories in a shard go on while Dump visits a
// history there, and while it waits for a caller of that one.
func TestJournalDumpLocksNoShard(t *testing.T) {
	m := NewMemory()
	l, err := New(Policy{Name: "p", Limits: []Limit{{Name: "l", Max: 1, Window: time.Hour, By: []string{"user"}}}}, WithEngine(m))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Allow(ctx, K("one")); err != nil {
		t.Fatal(err)
	}
	visited := 0
	for p, more := (DumpPlace{}), true; more; {
		s := m.table.At(p.shard)
		more = m.Dump(&p, 1, m.Clock(), func(*StoredHistory) {
			if visited++; !s.TryLock() {
				t.Fatal("the shard is locked")
			}
			s.Unlock()
		})
	}
	if visited != 1 {
		t.Errorf("%d histories, want 1", visited)
	}

	var slots [1]slot
	one := K("one")
	_, _, locks := m.lockSlots(m.compiled(l.plan).limits, &one, slots[:], moment{})
	m.table.Unlock(locks)
	s, r, began, done := slots[0].shard, slots[0].record, make(chan struct{}), make(chan struct{})
	go func() {
		close(began)
		for p := (DumpPlace{}); m.Dump(&p, 1, m.Clock(), func(*StoredHistory) {}); {
		}
		close(done)
	}()
	<-began
	time.Sleep(20 * time.Millisecond)
	for late := time.Now().Add(time.Minute); !s.TryLock(); runtime.Gosched() {
		if time.Now().After(late) {
			t.Fatal("the shard is locked while Dump waits for a caller of a history")
		}
	}
	s.Unlock()
	select {
	case <-done:
		t.Error("Dump does not wait for a caller of a history")
	default:
	}
	r.Unlock()
	<-done
}

// TestJournalParts: entries that left between the parts of a history do not come back, nor
// do parts before the history was read anew.
func TestJournalParts(t *testing.T) {
	entries := func(ends ...int64) (all []StoredEntry) {
		for _, end := range ends {
			all = append(all, StoredEntry{end, 1})
		}
		return all
	}
	var p Parts
	for range 2 {
		for _, h := range []StoredHistory{
			{Entries: entries(1, 4), More: true},
			{Entries: entries(3, 4), More: true},
			{Entries: entries(5, 6), More: true, Later: true},
		} {
			if p.Join(&h) {
				t.Errorf("%+v is whole", h)
			}
		}
		last := StoredHistory{Entries: entries(7), Later: true, Oldest: 4}
		if want := entries(4, 5, 6, 7); !p.Join(&last) || !reflect.DeepEqual(last.Entries, want) {
			t.Errorf("got %v, want %v", last.Entries, want)
		}
	}
}
