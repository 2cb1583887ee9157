package weirdisk

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// ledger adds up the journals of all lives of one directory, and collects contradictions.
//
// Shared keys get attempts of all callers. The acknowledged grants of no window exceed
// Max, and after each start the units that count are at least those acknowledged, and at
// most those and the ones in flight at a kill.
//
// An own key gets operations of one caller, one after the other. Its count is known
// exactly, except for the effect of the operation in flight at a kill.
type ledger struct {
	grants   map[place][]grant // acknowledged, of shared keys
	inFlight map[place]int64   // attempts without an answer, over all lives
	own      map[place]*account
	used     map[place]int64 // by the last state
	newest   int64           // latest acknowledged instant
	lives    int
	acked    int
	problems []string
}

// place is a key of a policy.
type place struct {
	table uint16
	key   uint32
}

type grant struct{ at, n int64 }

// account is the state of an own key.
type account struct {
	count   int64
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

// add adds the journal of one life.
func (l *ledger) add(events []event) {
	l.lives++
	newest := l.newest
	for i := range events {
		e := &events[i]
		p := place{e.Table, e.Key}
		switch {
		case e.Kind == fault:
			l.errorf("caller %d: the idempotency key %d was decided at %d and is not remembered so", e.Caller, e.ID, e.At)
		case e.Kind == state:
			if e.At < newest {
				l.errorf("the clock runs back: now %d, the newest acknowledged instant is %d", e.At, newest)
			}
			if l.used[p] = e.Used; policies[e.Table].own {
				l.compareOwn(p, e)
				continue
			}
			l.compareShared(p, e)
			if other := l.used[place{pairs, p.key}]; p.table == pairs+1 && e.Used != other {
				l.errorf("pair %d: %d and %d units count, of calls decided together", p.key, other, e.Used)
			}
		case e.Kind == repeated:
			a := l.account(p)
			if replayed := e.Used == 1; replayed != a.took[e.ID] {
				l.errorf("own key %d: the idempotency key %d was replayed: %v, and its units counted: %v", p.key, e.ID, replayed, a.took[e.ID])
			} else if !replayed {
				a.count += e.N
			}
			a.last, a.pending = *e, nil
		case e.Kind == called:
			if policies[e.Table].own {
				l.account(p).pending = e
			} else {
				l.inFlight[p] += e.N
			}
		case e.Kind == acked:
			l.acked++
			l.newest = max(l.newest, e.At)
			if policies[e.Table].own {
				a := l.account(p)
				a.count, a.pending = applied(a.count, e), nil
				if e.Op == once {
					a.last = *e
				}
				continue
			}
			l.inFlight[p] -= e.N
			if e.Used > 0 { // granted
				l.grants[p] = append(l.grants[p], grant{e.At, e.N})
			}
		}
	}
}

func (l *ledger) account(p place) *account {
	a := l.own[p]
	if a == nil {
		a = &account{took: map[uint64]bool{}}
		l.own[p] = a
	}
	return a
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

// compareOwn compares the count of an own key with the operations on it.
func (l *ledger) compareOwn(p place, e *event) {
	a := l.account(p)
	possible := []int64{a.count}
	switch in := a.pending; {
	case in == nil || a.took[in.ID]:
	case in.Op == refund: // it takes from the oldest entry, at most so many units
		for n := range in.N {
			possible = append(possible, max(a.count-n-1, 0))
		}
	default:
		possible = append(possible, applied(a.count, in))
	}
	if !slices.Contains(possible, e.Used) {
		l.errorf("own key %d: %d units count, want one of %v (in flight: %+v)", p.key, e.Used, possible, a.pending)
	}
	if in := a.pending; in != nil {
		if in.Op == once {
			a.took[in.ID] = a.took[in.ID] || e.Used != a.count
			a.last = *in
			a.last.At = 0
		}
		a.pending = nil
	}
	a.count = e.Used
}

// compareShared compares the units of a shared key with the acknowledged ones.
func (l *ledger) compareShared(p place, e *event) {
	sum := int64(0)
	for _, g := range l.grants[p] {
		if g.at > e.At-policies[e.Table].window.Microseconds() {
			sum += g.n
		}
	}
	if e.Used < sum-policies[e.Table].slack || e.Used > sum+l.inFlight[p] {
		l.errorf("%v, key %d: %d units count, %d are acknowledged and %d were in flight", &policies[e.Table], p.key, e.Used, sum, l.inFlight[p])
	}
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
// a smaller Max: whatever they grant, the first one could.
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
		case kind == weir.Concurrency:
			l.Window, l.MaxHold = 0, l.Window
		case kind == weir.Bucket:
			l.Max, l.Burst, all.slack = 1, most, 1
		case factor == 3:
			l.Max, l.Window = most/2, window
		}
		all.versions = append(all.versions, weir.Policy{Name: name, Limits: []weir.Limit{l}})
	}
	return all
}

// policies have windows of 1 s to 1 h. Half of the shared keys reach their Max soon.
var policies = func() (all []table) {
	for _, window := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
		for _, most := range []int64{40, 1_000_000} {
			all = append(all, newTable(fmt.Sprintf("shared-%v-%d", window, most), weir.Rolling, most, window, 4))
		}
	}
	for _, kind := range []weir.Kind{weir.FixedFromFirst, weir.Concurrency, weir.Bucket} {
		all = append(all, newTable("shared-1h0m0s-1000000", kind, 800, 3*time.Hour, 4))
	}
	all = append(all, newTable("pair-a", weir.Rolling, 1_000_000, time.Hour, 4), newTable("pair-b", weir.Rolling, 1_000_000, time.Hour, 4))
	own := newTable("own", weir.Rolling, weir.MaxUnits, 24*time.Hour, callers)
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
