package weirdisk

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// ledger adds up the calls in all lives of one directory, and collects contradictions.
// After a power failure, changes behind the last safe event may be lost.
//
// Shared keys get attempts of all callers. The acknowledged grants of no window exceed
// Max. After each start the units that count are at least those that were acknowledged and
// safe, and at most all that were acknowledged or are in flight.
//
// An own key gets operations of one caller, one after the other. Its count is known
// exactly, except for the effect of operations without an answer, and of those that may be lost.
type ledger struct {
	grants   map[place][]grant // acknowledged, of shared keys
	inFlight map[place]int64   // attempts without an answer, over all lives
	own      map[place]*account
	used     map[place]int64 // by the last state
	newest   int64           // latest safe instant
	lives    int
	acked    int
	problems []string
}

// place is a key of a policy.
type place struct {
	table uint16
	key   uint32
}

type grant struct {
	at, n int64
	safe  bool
}

// account is the state of an own key.
type account struct {
	counts  []int64         // those that are possible after the last operation
	since   []int64         // and after the last safe one, or one behind it
	pending *event          // called and not acknowledged
	took    map[uint64]bool // idempotency keys that were in flight at a kill, with units that count
	last    event           // the last operation with an idempotency key; without an instant if it was in flight
}

// once returns the operations with an idempotency key to repeat in the next life, the last
// of each caller.
func (l *ledger) once() (all []event) {
	for _, a := range l.own {
		last := a.last
		if a.pending != nil && a.pending.Op == once {
			last = *a.pending
			last.At = 0
		}
		if last.ID != 0 {
			all = append(all, last)
		}
	}
	return all
}

func newLedger() *ledger {
	return &ledger{grants: map[place][]grant{}, inFlight: map[place]int64{}, own: map[place]*account{}, used: map[place]int64{}}
}

func (l *ledger) errorf(format string, args ...any) {
	if len(l.problems) < 20 {
		l.problems = append(l.problems, fmt.Sprintf("life %d: ", l.lives)+fmt.Sprintf(format, args...))
	}
}

// add adds an event.
func (l *ledger) add(e *event, safe bool) {
	p := place{e.Table, e.Key}
	a := l.account(p)
	switch {
	case e.Kind == fault:
		l.errorf("caller %d: the idempotency key %d was decided at %d and is not remembered so", e.Caller, e.ID, e.At)
	case e.Kind == state:
		l.observe(p, e.At, e.Used)
	case e.Kind == repeated:
		if replayed := e.Used == 1; replayed != a.took[e.ID] {
			l.errorf("own key %d: the idempotency key %d was replayed: %v, and its units counted: %v", p.key, e.ID, replayed, a.took[e.ID])
		} else if !replayed {
			a.acknowledge(e, safe)
		}
		a.last, a.pending = *e, nil
	case e.Kind == called && policies[e.Table].own:
		if a.pending != nil { // it has failed
			a.counts = append(a.counts, possible(a.counts, a.pending)...)
		}
		a.pending = e
		if !a.took[e.ID] {
			a.since = append(append(a.since, a.counts...), possible(a.counts, e)...)
		}
	case e.Kind == called:
		l.inFlight[p] += e.N
	case e.Kind == acked:
		l.acked++
		if safe {
			l.newest = max(l.newest, e.At)
		}
		if policies[e.Table].own {
			if a.acknowledge(e, safe); e.Op == once {
				a.last = *e
			}
			return
		}
		l.inFlight[p] -= e.N
		if e.Used > 0 { // granted
			l.grants[p] = append(l.grants[p], grant{e.At, e.N, safe})
		}
	}
}

func (l *ledger) account(p place) *account {
	a := l.own[p]
	if a == nil {
		a = &account{took: map[uint64]bool{}}
		a.count(0)
		l.own[p] = a
	}
	return a
}

// count sets the count, which is known.
func (a *account) count(n int64) { a.counts, a.since = []int64{n}, []int64{n} }

// acknowledge adds an operation with an answer.
func (a *account) acknowledge(e *event, safe bool) {
	for i, n := range a.counts {
		a.counts[i] = applied(n, e)
	}
	slices.Sort(a.counts)
	a.counts = slices.Compact(a.counts)
	if a.pending = nil; safe {
		a.since = nil
	}
	a.since = append(a.since, a.counts...)
}

// applied returns the count after an operation.
func applied(count int64, e *event) int64 {
	switch e.Op {
	case reset:
		return 0
	case refund:
		return max(count-e.N, 0)
	}
	return count + e.N
}

// possible returns the counts after an operation without an answer.
func possible(counts []int64, e *event) (all []int64) {
	for _, n := range counts {
		all = append(all, applied(n, e))
		for took := int64(1); e.Op == refund && took < e.N; took++ { // from the oldest entry only
			all = append(all, max(n-took, 0))
		}
		for took := int64(0); e.Op == settle && took < -e.N; took++ { // the others are gone
			all = append(all, max(n-took, 0))
		}
	}
	return all
}

// observe compares the units of a key that count at an instant after a start.
func (l *ledger) observe(p place, at, used int64) {
	if at < l.newest {
		l.errorf("the clock runs back: now %d, the newest acknowledged instant is %d", at, l.newest)
	}
	l.used[p] = used
	table := &policies[p.table]
	if table.own {
		l.observeOwn(p, used)
		return
	}
	least, most := -table.slack, l.inFlight[p]
	for _, g := range l.grants[p] {
		if g.at > at-table.window.Microseconds() {
			if most += g.n; g.safe {
				least += g.n
			}
		}
	}
	if used < least || used > most {
		l.errorf("%v, key %d: %d units count, want %d to %d", table, p.key, used, least, most)
	}
	if other := l.used[place{pairs, p.key}]; p.table == pairs+1 && used != other {
		l.errorf("pair %d: %d and %d units count, of calls decided together", p.key, other, used)
	}
}

// observeOwn compares the count of an own key with the operations on it.
func (l *ledger) observeOwn(p place, used int64) {
	a := l.account(p)
	if !slices.Contains(a.since, used) {
		l.errorf("own key %d: %d units count, want one of %v (in flight: %+v)", p.key, used, a.since, a.pending)
	}
	if in := a.pending; in != nil && in.Op == once {
		a.took[in.ID] = a.took[in.ID] || used != a.counts[0]
		a.last = *in
		a.last.At = 0
	}
	a.pending = nil
	a.count(used)
}

// audit compares every window of the acknowledged grants of all lives with Max.
func (l *ledger) audit() {
	for p, grants := range l.grants {
		table := &policies[p.table]
		if from, units := fullest(grants, table.window); units > table.max {
			l.errorf("%v, key %d: %d units were granted within %v from %d, at most %d are allowed",
				table, p.key, units, table.window, from, table.max)
		}
	}
}

// fullest returns the most units within a window, and the instant of the first of them.
func fullest(grants []grant, window time.Duration) (from, most int64) {
	grants = slices.Clone(grants)
	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.at, b.at) })
	sum, first := int64(0), 0
	for _, g := range grants {
		sum += g.n
		for grants[first].at <= g.at-window.Microseconds() {
			sum -= grants[first].n
			first++
		}
		if sum > most {
			from, most = grants[first].at, sum
		}
	}
	return from, most
}

// table is a policy of the callers. Each call uses one of its versions, so numbers, windows and
// rates change between calls of every sort. Versions behind the first one have a longer window or
// a smaller Max, so the first one would grant all that they grant.
type table struct {
	versions []weir.Policy
	max      int64
	window   time.Duration
	own      bool // each key belongs to one caller
	keys     int
	slack    int64 // units that a bucket has gained meanwhile
}

// String names a table in messages.
func (t *table) String() string {
	return fmt.Sprintf("%s, %v", t.versions[0].Name, t.versions[0].Limits[0].Kind)
}

// newTable returns a table of a kind. Tables of one name change each other's kind (R12).
func newTable(name string, kind weir.Kind, most int64, window time.Duration, keys int) table {
	all := table{max: most, window: window, keys: keys}
	for _, factor := range []int64{1, 2, 3} {
		l := weir.Limit{Name: "limit", Kind: kind, Max: most, Window: time.Duration(factor) * window, By: []string{"key"}}
		switch {
		case kind == weir.KindConcurrency:
			l.Window, l.MaxHold = 0, l.Window
		case kind == weir.KindBucket:
			l.Max, l.Burst, all.slack = 1, most, 1
		case factor == 3:
			l.Max, l.Window = most/2, window
		}
		all.versions = append(all.versions, weir.Policy{Name: name, Limits: []weir.Limit{l}, Dimensions: l.By})
	}
	return all
}

// policies have windows of 1 s to 1 h. Half of the shared keys reach their Max soon.
var policies = func() (all []table) {
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
		for _, most := range []int64{40, 1_000_000} {
			all = append(all, newTable(fmt.Sprintf("shared-%v-%d", window, most), weir.KindRolling, most, window, 4))
		}
	}
	for _, kind := range []weir.Kind{weir.KindFixedFromFirst, weir.KindConcurrency, weir.KindBucket} {
		all = append(all, newTable("shared-1h0m0s-1000000", kind, 800, 3*time.Hour, 4))
	}
	all = append(all, newTable("pair-a", weir.KindRolling, 1_000_000, time.Hour, 4), newTable("pair-b", weir.KindRolling, 1_000_000, time.Hour, 4))
	own := newTable("own", weir.KindRolling, weir.MaxUnits, 24*time.Hour, callers)
	own.own = true
	return append(all, own)
}()

// The last tables are those of own keys and, before it, two of which units are only taken
// together.
var (
	ownTable = uint16(len(policies) - 1)
	pairs    = ownTable - 2
)

const callers = 64
