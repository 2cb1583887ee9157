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
// An own key gets operations of one caller, one after the other. Its state is known
// exactly, except for the effect of operations without an answer, and of those that may be lost.
// The count, the hold, the block and the reservation of a key change together or not at all.
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

// account is what is known of an own key.
type account struct {
	states  []keyState      // those that are possible after the last operation
	since   []keyState      // and after the last safe one, or one behind it
	pending *event          // called and not acknowledged
	took    map[uint64]bool // idempotency keys that were in flight at a kill, with units that count
	last    event           // the last operation with an idempotency key; without an instant if it was in flight
	opening event           // the call that opened the newest reservation
	revised event           // the last call on it
}

// keyState is the state of an own key. The reservation is the newest one of the key.
type keyState struct {
	count    int64  // units that count
	held     int64  // units that are held
	blocked  bool   // a block runs
	id       uint64 // of the reservation, 0 = there is none
	opened   int64  // its units without those of extensions,
	reserved int64  // with them,
	newest   int64  // and those of its newest grant
	settled  bool
	ahead    int64 // units of appointments
	start    int64 // the instant of the last one; 0 = it has no answer
}

// after returns the state after an operation under a limit of most units.
func (s keyState) after(e *event, most int64) keyState {
	switch e.Op {
	case reset:
		return keyState{}
	case refund:
		s.count = max(s.count-e.N, 0)
	case block:
		s.blocked = e.N > 0
	case wait:
		if s.count += e.N; s.count > most {
			s.ahead += e.N
			s.start = e.Start
		}
	case record:
		s.count += e.N
	case reserve:
		if s.id != e.ID { // otherwise it is repeated
			s.count, s.held = s.count+e.N, s.held+e.N
			s.id, s.settled = e.ID, false
			s.opened, s.reserved, s.newest = e.N, e.N, e.N
		}
	case extend:
		if e.N > 0 && s.reserved == e.From { // otherwise it is repeated
			s.count, s.reserved, s.newest = s.count+e.N, s.reserved+e.N, e.N
		}
	case settle:
		if !s.settled {
			unused := min(max(s.reserved-e.N, 0), s.newest)
			s.count += max(e.N-s.reserved, 0) - unused
			s.held, s.settled = s.held-s.opened, true
		}
	default:
		switch {
		case s.blocked:
		case s.count+e.N <= most:
			s.count += e.N
		default:
			s.blocked = policies[e.Table].blocks
		}
	}
	return s
}

// answers reports whether an answer agrees with the state after the operation. before is the one
// before it.
func (s keyState) answers(e *event, before keyState) bool {
	if e.Kind == repeated { // its answer has no units
		return true
	}
	switch e.Op {
	case reserve, extend, settle:
		if isRepeated := s == before; e.N > 0 && e.Replayed != isRepeated {
			return false
		}
		return e.Used == s.reserved && e.Settled == s.settled
	case wait:
		isAhead := s.ahead > before.ahead
		return e.Used == e.N && isAhead == (e.Start > 0)
	case attempt, once:
		return e.Used == s.count-before.count // the granted units
	}
	return true
}

// repeatable returns the operations that the next life repeats: of each caller the last one with
// an idempotency key, and the opening of the newest reservation with the last call on it.
func (l *ledger) repeatable() (all []event) {
	for _, a := range l.own {
		last := a.last
		if a.pending != nil && a.pending.Op == once {
			last = *a.pending
			last.At = 0
		}
		if last.ID != 0 {
			all = append(all, last)
		}
		if a.opening.ID == 0 {
			continue
		}
		if all = append(all, a.opening); a.revised.ID == a.opening.ID {
			all = append(all, a.revised)
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

// write adds an event, as pipe does.
func (l *ledger) write(e event) { l.add(&e, true) }

// add adds an event.
func (l *ledger) add(e *event, safe bool) {
	p := place{e.Table, e.Key}
	a := l.account(p)
	switch {
	case e.Kind == fault:
		l.errorf("caller %d: the idempotency key %d was decided at %d and is not remembered so", e.Caller, e.ID, e.At)
	case e.Kind == state:
		l.observe(e)
	case e.Kind == repeated:
		if replayed := e.Used == 1; replayed != a.took[e.ID] {
			l.errorf("own key %d: the idempotency key %d was replayed: %v, and its units counted: %v", p.key, e.ID, replayed, a.took[e.ID])
		} else if !replayed {
			l.acknowledge(a, e, safe)
		}
		a.last, a.pending = *e, nil
	case e.Kind == called && policies[e.Table].own:
		if a.pending != nil { // it has failed
			a.states = distinct(append(a.states, possible(a.states, a.pending)...))
		}
		a.called(e)
		if !a.took[e.ID] {
			a.since = append(append(a.since, a.states...), possible(a.states, e)...)
		}
	case e.Kind == called:
		l.inFlight[p] += e.N
	case e.Kind == acked:
		l.acked++
		if safe {
			l.newest = max(l.newest, e.At)
		}
		if policies[e.Table].own {
			if l.acknowledge(a, e, safe); e.Op == once {
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
		a.know([]keyState{{}})
		l.own[p] = a
	}
	return a
}

// know sets the possible states, when nothing may be lost.
func (a *account) know(states []keyState) { a.states, a.since = states, slices.Clone(states) }

// called notes an operation without an answer.
func (a *account) called(e *event) {
	switch a.pending = e; e.Op {
	case reserve:
		a.opening = *e
	case extend, settle:
		a.revised = *e
	}
}

// acknowledge adds an operation with an answer.
func (l *ledger) acknowledge(a *account, e *event, safe bool) {
	var after []keyState
	for _, s := range a.states {
		if next := s.after(e, policies[e.Table].max); next.answers(e, s) {
			after = append(after, next)
		}
	}
	if after == nil {
		l.errorf("%v, key %d: the answer %+v fits none of the states %+v",
			&policies[e.Table], e.Key, *e, a.states)
		return
	}
	a.states = distinct(after)
	if a.pending = nil; safe {
		a.since = nil
	}
	a.since = append(a.since, a.states...)
}

// possible returns the states after an operation without an answer.
func possible(states []keyState, e *event) (all []keyState) {
	for _, s := range states {
		all = append(all, s.after(e, policies[e.Table].max))
		for took := int64(1); e.Op == refund && took < e.N; took++ { // from the oldest entry only
			part := s
			part.count = max(s.count-took, 0)
			all = append(all, part)
		}
	}
	return all
}

// distinct returns each state once.
func distinct(states []keyState) (all []keyState) {
	for _, s := range states {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// observe compares the state of a key with the calls, after a start.
func (l *ledger) observe(e *event) {
	p, used := place{e.Table, e.Key}, e.Used
	if e.At < l.newest {
		l.errorf("the clock runs back: now %d, the newest acknowledged instant is %d", e.At, l.newest)
	}
	l.used[p] = used
	table := &policies[p.table]
	if table.own {
		l.observeOwn(p, e)
		return
	}
	least, most := -table.slack, l.inFlight[p]
	for _, g := range l.grants[p] {
		if g.at > e.At-table.window.Microseconds() {
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

// observeOwn compares the state of an own key with the operations on it.
func (l *ledger) observeOwn(p place, e *event) {
	a := l.account(p)
	var fits []keyState
	for _, s := range a.since {
		waits := s.ahead == e.Ahead && (s.start == e.Start || s.start == 0)
		if s.count == e.Used && s.held == e.Held && s.blocked == e.Blocked && waits {
			s.start = e.Start
			fits = append(fits, s)
		}
	}
	if fits == nil {
		l.errorf("%v, own key %d: %+v; want one of %+v (in flight: %+v)",
			&policies[p.table], p.key, *e, a.since, a.pending)
		fits = a.states
	}
	if in := a.pending; in != nil && in.Op == once {
		a.took[in.ID] = a.took[in.ID] || e.Used != a.states[0].count
		a.last = *in
		a.last.At = 0
	}
	a.pending = nil
	a.know(distinct(fits))
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
	blocks   bool // a denial begins a block
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
	waiting := newTable("waiting", weir.KindRolling, 20, 24*time.Hour, callers)
	waiting.own, waiting.versions = true, waiting.versions[:1]
	return append(all, heldTable(), blockedTable(), waiting, own)
}()

// heldTable returns the table of reservations: each caller has one, with a rate and a hold.
func heldTable() table {
	all := table{max: weir.MaxUnits, own: true, keys: callers}
	for factor := range 3 {
		long, by := time.Duration(1+factor)*24*time.Hour, []string{"key"}
		all.versions = append(all.versions, weir.Policy{Name: "held", Dimensions: by, Limits: []weir.Limit{
			{Name: "rate", Max: weir.MaxUnits, Window: long, By: by},
			{Name: "hold", Kind: weir.KindConcurrency, Max: weir.MaxUnits, MaxHold: long, By: by},
		}})
	}
	return all
}

// blockedTable returns the table of blocks, by denials and by operators.
func blockedTable() table {
	all := table{max: 20, own: true, blocks: true, keys: callers}
	for _, long := range []time.Duration{24 * time.Hour, 48 * time.Hour} {
		l := weir.PerDay(all.max, "key").Named("limit").Blocking(long)
		all.versions = append(all.versions, weir.Policy{Name: "blocked", Dimensions: l.By, Limits: []weir.Limit{l}})
	}
	return all
}

// The last tables are those of own keys and, before them, two of which units are only taken
// together.
var (
	ownTable   = uint16(len(policies) - 1)
	waitTable  = ownTable - 1
	blockTable = ownTable - 2
	holdTable  = ownTable - 3
	pairs      = ownTable - 5
)

const callers = 64
