package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// plain is a history as a plain list, the oldest entry first.
type plain struct {
	last    int64
	entries []Entry
}

func (p *plain) used(cutoff int64) (sum int64) {
	for _, e := range p.entries {
		if e.End > cutoff {
			sum += e.Units
		}
	}
	return sum
}

func (p *plain) total() int64 { return p.used(-1 << 62) }

func (p *plain) prune(cutoff int64) {
	p.entries = slices.DeleteFunc(p.entries, func(e Entry) bool { return e.End <= cutoff })
}

func (p *plain) add(end, now, n int64) {
	if i := len(p.entries) - 1; i >= 0 && p.entries[i].End >= end {
		p.entries[i].Units += n
	} else {
		p.entries = append(p.entries, Entry{end, n})
	}
	p.last = now
}

func (p *plain) cap(most int64) {
	newest := len(p.entries) - 1
	if newest < 0 || most == 0 {
		p.entries = nil
		return
	}
	p.entries[newest].Units = min(p.entries[newest].Units, most)
	for sum, i := int64(0), newest; i >= 0; i-- {
		if sum += p.entries[i].Units; sum >= most {
			p.entries = p.entries[i:]
			return
		}
	}
}

func (p *plain) refund(end, cutoff, n int64) int64 {
	for i := range p.entries {
		if e := &p.entries[i]; e.End == end && end > cutoff {
			took := min(n, e.Units)
			if e.Units -= took; e.Units == 0 {
				p.entries = slices.Delete(p.entries, i, i+1)
			}
			return took
		}
	}
	return 0
}

func (p *plain) refundOldest(cutoff, n int64) (took int64) {
	for i := range p.entries {
		if e := &p.entries[i]; e.End > cutoff {
			units := min(n-took, e.Units)
			e.Units -= units
			took += units
		}
	}
	p.entries = slices.DeleteFunc(p.entries, func(e Entry) bool { return e.Units == 0 })
	return took
}

func (p *plain) redate(end, now int64) {
	old, last := p.entries, min(p.last, now)
	p.entries = nil
	for _, e := range old {
		p.add(min(e.End, end), last, e.Units)
	}
	p.last = last
	if i := len(p.entries) - 1; i >= 0 && p.entries[i].End == end {
		p.entries[i].Units = min(p.entries[i].Units, MaxUnits)
	}
}

// leave is the end of the last entry that must leave until need units have left.
func (p *plain) leave(cutoff, need int64) int64 {
	for _, e := range p.entries {
		if e.End > cutoff {
			if need -= e.Units; need <= 0 {
				return e.End
			}
		}
	}
	return -1
}

const longestWindow = 400 * 24 * 3600 * 1_000_000

// player is a history and the same as a list, with the rule and the clock of both.
type player struct {
	t      *testing.T
	r      *rand.Rand
	where  string
	budget *counted
	arena  *Arena // shared by several players
	h      History
	p      plain
	rule   Rule
	now    int64
	calm   bool  // histories become long: nearly all calls record, and the rule stays
	single bool  // most entries are of one unit
	dense  int64 // steps of the clock in a window, about
	most   int64 // units of an entry, about
	seen   map[string]int
}

// pickRule gives the history another rule: windows of all forms, with cells and without.
func (x *player) pickRule() {
	r := x.r
	x.rule = Rule{Max: 1 + r.Int64N(200), Window: []int64{1000, 1 << 31, NarrowSpan - 1, NarrowSpan, NarrowSpan + 1, longestWindow}[r.IntN(6)]}
	if r.IntN(3) == 0 {
		x.rule.Cell = x.rule.Window * []int64{7, 100, 1000}[r.IntN(3)] / 1000
		x.rule.Ahead = x.rule.Cell
	}
	x.rule.Narrow = x.rule.Cell == 0 && x.rule.Window < NarrowSpan
	x.dense = 1 << r.IntN(12)
	x.most = 1 << r.IntN(51)
	x.single = r.IntN(2) == 0
	if x.calm {
		x.dense = 2000 + r.Int64N(2000)
	}
}

// pass lets some time pass: mostly a part of a window, sometimes as much as the window or more.
func (x *player) pass() {
	r := x.r
	jump := r.IntN(40)
	if x.calm {
		jump = 8
	}
	switch jump {
	case 0:
		x.now = max(x.now, x.p.last+x.rule.Window-1+r.Int64N(3))
	case 1:
		x.now += r.Int64N(2 * x.rule.Window)
	case 2, 3, 4, 5, 6, 7:
	default:
		x.now += r.Int64N(x.rule.Window/x.dense + 2)
	}
	x.now = max(x.now, x.p.last)
}

// units returns units of an entry: often 1, sometimes around the most of a packed entry.
func (x *player) units() int64 {
	r := x.r
	switch {
	case x.single && (x.calm || r.IntN(200) > 0):
		return 1
	case r.IntN(4) == 0:
		return 1 + r.Int64N(3)
	case r.IntN(30) == 0:
		return packedUnits - 2 + r.Int64N(5)
	}
	return 1 + r.Int64N(x.most)
}

// record records an entry as an engine does. While the budget is full it may change nothing.
func (x *player) record(n int64) {
	x.t.Helper()
	end, cutoff := x.rule.End(x.now), x.rule.Cutoff(x.now)
	used, drop := x.h.Used(x.arena, cutoff)
	if used+n > MaxUnits {
		return
	}
	e := Add{End: end, Now: x.now, Units: n, Drop: drop, Narrow: x.rule.Narrow}
	if x.now%2 == 0 && x.try(e) {
		x.p.prune(cutoff)
		x.p.add(end, x.now, n)
		return
	}
	if before := x.h.form(); !x.h.Ready(x.arena, &e) {
		x.budget.full = x.r.IntN(4) == 0
		ok := x.h.Grow(x.arena, &e)
		refused := x.budget.full
		x.budget.full = false
		x.compareEntries()
		if !ok {
			if !refused {
				x.t.Fatalf("%s: no room", x.where)
			}
			x.seen["refused"]++
			if e.Drop != drop {
				x.t.Fatalf("%s: Grow reports false and drops %d entries, %d before", x.where, e.Drop, drop)
			}
			return
		}
		if !x.h.Ready(x.arena, &e) {
			x.t.Fatalf("%s: not ready after Grow for %+v: %+v", x.where, e, x.h)
		}
		x.seen[fmt.Sprint(before, " grows to ", x.h.form())]++
		if e.Drop != drop {
			x.seen["another drop"]++
		}
	} else if h := x.h.form(); e.Drop > 0 && used == 0 && x.h.run != 0 {
		defer func() { x.seen[fmt.Sprint(h, " in its run begins again as ", x.h.form())]++ }()
	}
	x.h.Record(x.arena, &e)
	x.p.prune(cutoff)
	x.p.add(end, x.now, n)
	if total := x.h.Total(); total != used+n {
		x.t.Fatalf("%s: %d units in all, want %d", x.where, total, used+n)
	}
}

// try records an entry by TryRecord, and reports whether it can.
func (x *player) try(e Add) bool {
	x.t.Helper()
	before := x.h
	ready := x.h.Ready(x.arena, &e) && e.End >= x.h.End()
	if ok := x.h.TryRecord(x.arena, &e); ok != ready || !ok && x.h != before {
		x.t.Fatalf("%s: TryRecord of %+v: %t, want %t; changed: %t", x.where, e, ok, ready, x.h != before)
	} else if !ok {
		x.seen["TryRecord leaves it to others"]++
		return false
	}
	x.seen[fmt.Sprint("TryRecord in a history that was ", before.form())]++
	return true
}

// later returns a few instants up to now that rise, with units.
func (x *player) later() (all []Entry) {
	at := x.p.last
	for range x.r.IntN(4) * x.r.IntN(4) {
		if at = at + 1 + x.r.Int64N(1+(x.now-max(at, x.now-x.rule.Window))/4); at > x.now {
			return all
		}
		all = append(all, Entry{at, x.units()})
	}
	return all
}

// recordAll records several entries in one step, as appointments that have begun and an entry of
// now, and perhaps none. While the budget is full it changes nothing.
func (x *player) recordAll() {
	x.t.Helper()
	cutoff := x.rule.Cutoff(x.now)
	all, newest, sum := x.later(), x.h.End(), x.p.used(cutoff)
	if x.r.IntN(3) > 0 {
		all = append(all, Entry{x.now, x.units()})
	}
	var adds []Add
	for _, e := range all {
		if newest = x.rule.EndBehind(newest, e.End); newest > cutoff {
			adds = append(adds, Add{End: newest, Now: e.End, Units: e.Units, Narrow: x.rule.Narrow})
			sum += e.Units
		}
	}
	if sum > MaxUnits {
		return
	}
	before := x.h.form()
	x.budget.full = x.r.IntN(4) == 0
	ok := x.h.GrowFor(x.arena, adds, cutoff, x.rule.Narrow)
	refused := x.budget.full
	x.budget.full = false
	x.compareEntries()
	if !ok && !refused {
		x.t.Fatalf("%s: no room for %d entries", x.where, len(adds))
	}
	if !ok {
		return
	}
	x.seen[fmt.Sprint(before, " gets several as ", x.h.form())]++
	x.h.RecordAll(x.arena, adds, cutoff, x.now)
	x.p.prune(cutoff)
	for _, e := range adds {
		x.p.add(e.End, x.now, e.Units)
	}
	x.p.last = x.now
}

// moveLast moves the newest attempt, and keeps entries that no longer count.
func (x *player) moveLast() {
	x.t.Helper()
	x.now += x.r.Int64N(1 << x.r.IntN(45))
	c, own := x.h.Clone(x.arena)
	if !c.MoveLast(own, x.now) {
		x.t.Fatalf("%s: no room in an arena of its own", x.where)
	}
	x.p.last = x.now
	x.seen[fmt.Sprint(x.h.form(), " moves as ", c.form())]++
	x.replaceBy(c, own)
}

// append adds entries behind all others, as a refund does with appointments that have begun.
func (x *player) append() {
	x.t.Helper()
	more := x.later()
	if len(more) == 0 || x.p.total()+more[0].Units > MaxUnits {
		return
	}
	more = more[:1]
	more[0].End = x.rule.EndBehind(x.h.End(), more[0].End)
	x.p.last = max(x.p.last, x.now)
	x.p.add(more[0].End, x.p.last, more[0].Units)
	c, own := x.h.Clone(x.arena)
	c.Append(own, more, x.p.last)
	x.replaceBy(c, own)
}

// refund takes units back, mostly from an entry that exists: the first, the last or another.
func (x *player) refund() {
	x.t.Helper()
	i := x.r.IntN(len(x.p.entries))
	switch x.r.IntN(4) {
	case 0:
		i = 0
	case 1:
		i = len(x.p.entries) - 1
	}
	e := x.p.entries[i]
	at, cutoff := e.End, x.rule.Cutoff(x.now)
	if x.r.IntN(6) == 0 {
		at += x.r.Int64N(3) - 1
	}
	n := []int64{0, 1, e.Units - 1, e.Units, e.Units, e.Units, e.Units + 1, 1 + x.r.Int64N(e.Units)}[x.r.IntN(8)]
	if got, want := x.h.Refund(x.arena, at, cutoff, n), x.p.refund(at, cutoff, n); got != want {
		x.t.Fatalf("%s: refund %d of %d: got %d, want %d", x.where, n, at, got, want)
	}
}

func (x *player) refundOldest() {
	x.t.Helper()
	at := x.rule.Cutoff(x.now)
	if x.r.IntN(3) == 0 && len(x.p.entries) > 0 { // some entries may not count
		at = x.p.entries[x.r.IntN(len(x.p.entries))].End - x.r.Int64N(2)
	}
	n := 1 + x.r.Int64N(1<<x.r.IntN(12))
	if x.r.IntN(3) == 0 {
		n = max(x.p.used(at)-x.r.Int64N(3)+1, 0)
	}
	if got, want := x.h.RefundOldest(x.arena, at, n), x.p.refundOldest(at, n); got != want {
		x.t.Fatalf("%s: refund %d of the oldest after %d: got %d, want %d", x.where, n, at, got, want)
	}
}

// redate corrects the clock, on a copy in an arena of its own as an engine does.
func (x *player) redate() {
	x.t.Helper()
	x.now -= x.r.Int64N(x.rule.Window)
	if x.now >= x.p.last {
		return
	}
	end := x.rule.End(x.now)
	c, own := x.h.Clone(x.arena)
	c.Redate(own, end, x.now)
	x.p.redate(end, x.now)
	x.replaceBy(c, own)
}

// replaceBy puts a history of another arena in the place of x.h.
func (x *player) replaceBy(c *History, own *Arena) {
	x.t.Helper()
	x.budget.full = x.r.IntN(3) == 0
	copied, ok := c.Copy(own, x.arena)
	refused := x.budget.full
	x.budget.full = false
	if !ok {
		if !refused {
			x.t.Fatalf("%s: no room for a copy", x.where)
		}
		if copied, ok = c.Copy(own, x.arena); !ok {
			x.t.Fatalf("%s: no room for a copy", x.where)
		}
	}
	x.h.Free(x.arena)
	x.h = copied
}

// replace reads all entries and writes them again, as a snapshot does.
func (x *player) replace() {
	x.t.Helper()
	all := x.h.all(x.arena)
	x.budget.full = x.r.IntN(4) == 0
	ok := x.h.Replace(x.arena, all, x.p.last)
	refused := x.budget.full
	x.budget.full = false
	if ok {
		return
	}
	if !refused || x.h != Empty {
		x.t.Fatalf("%s: Replace reports false with room: %t, and leaves %+v", x.where, !refused, x.h)
	}
	x.p = plain{last: long}
}

func (x *player) step() {
	x.t.Helper()
	if !x.calm && x.r.IntN(150) == 0 {
		x.pickRule()
	}
	if !x.single || x.r.IntN(4) > 0 {
		x.pass()
	}
	op := x.r.IntN(100)
	if x.calm && x.r.IntN(1000) > 0 {
		op = x.r.IntN(82)
	}
	switch {
	case op < 8:
		x.recordAll()
	case op == 8 && !x.calm:
		x.moveLast()
	case op == 9 && !x.calm:
		x.append()
	case op < 80:
		x.record(x.units())
	case op < 90 && len(x.p.entries) > 0:
		x.refund()
	case op < 93:
		x.refundOldest()
	case op < 95 && len(x.p.entries) > 0: // an engine has just recorded, not as narrow
		narrows := x.rule.Narrow
		x.rule.Narrow = false
		x.record(x.units())
		if x.rule.Narrow = narrows; x.h.form() == narrow { // there was no room
			return
		}
		most := x.r.Int64N(x.p.total() + 3)
		x.h.Cap(x.arena, most)
		x.p.cap(most)
	case op < 97:
		x.redate()
	case op < 98:
		x.replace()
	case op < 99:
		c, own := x.h.Clone(x.arena)
		x.replaceBy(c, own)
	case x.r.IntN(4) == 0:
		x.h.Free(x.arena)
		x.p = plain{last: long}
	}
	if n := len(x.p.entries); n < 200 || x.r.IntN(n) < 100 {
		x.compare()
	}
}

// compareEntries compares all entries, and the numbers of the history with them.
func (x *player) compareEntries() {
	x.t.Helper()
	if all := x.h.all(x.arena); !slices.Equal(all, x.p.entries) {
		x.t.Fatalf("%s: got %v, want %v", x.where, all, x.p.entries)
	}
	if err := x.h.whole(x.arena); err != "" {
		x.t.Fatalf("%s: %s", x.where, err)
	}
}

// whole returns how the numbers beside the entries are wrong, if they are.
func (h *History) whole(a *Arena) string {
	r := h.entries(a)
	if r.form == narrow {
		if h.run != 0 && h.n > 1 && h.stamp[1] != *r.stamp(r.n - 1) {
			return fmt.Sprintf("the newest of %d stamps is %d, %d is beside them", h.n, *r.stamp(r.n - 1), h.stamp[1])
		}
		return ""
	}
	want := log{long, long, 0}
	for i := range r.n {
		end, units := r.at(i)
		if units <= 0 || i > 0 && end <= want.end {
			return fmt.Sprintf("entry %d of %d is %d units until %d, behind one until %d", i, r.n, units, end, want.end)
		}
		if i == 0 {
			want.front = end
		}
		want.end = end
		want.total += units
	}
	if *h.log() != want {
		return fmt.Sprintf("got %+v beside the entries, want %+v", *h.log(), want)
	}
	return ""
}

// compare compares the results of all methods that change nothing.
func (x *player) compare() {
	x.t.Helper()
	x.seen[x.h.describe()]++
	if n := len(x.p.entries); n < 50 || x.r.IntN(n) < 3 {
		x.compareEntries()
	}
	cutoff := x.rule.Cutoff(x.now)
	switch x.r.IntN(4) {
	case 0:
		cutoff += x.r.Int64N(2*x.rule.Window) - x.rule.Window
	case 1:
		if n := len(x.p.entries); n > 0 {
			cutoff = x.p.entries[x.r.IntN(n)].End - x.r.Int64N(2)
		}
	}
	used, drop := x.h.Used(x.arena, cutoff)
	if want := x.p.used(cutoff); used != want {
		x.t.Fatalf("%s: used after %d: got %d, want %d", x.where, cutoff, used, want)
	}
	if x.h.Last != x.p.last || x.h.Total() != x.p.total() || x.h.Rate() != 0 {
		x.t.Fatalf("%s: last %d, %d units, rate %d, want %d and %d", x.where, x.h.Last, x.h.Total(), x.h.Rate(), x.p.last, x.p.total())
	}
	end := int64(long)
	if n := len(x.p.entries); n > 0 {
		end = x.p.entries[n-1].End
	}
	if got := x.h.End(); got != end {
		x.t.Fatalf("%s: newest: got %d, want %d", x.where, got, end)
	}
	if got := x.h.Until(); got < end || got > max(end, x.p.last) {
		x.t.Fatalf("%s: until %d, the newest entry ends at %d, the newest attempt was at %d", x.where, got, end, x.p.last)
	}
	if used == 0 {
		return
	}
	for _, need := range []int64{1, 1 + x.r.Int64N(used), used/2 + 1, used} {
		if need > used {
			continue
		}
		if got, want := x.h.Leave(x.arena, drop, need), x.p.leave(cutoff, need); got != want {
			x.t.Fatalf("%s: %d of %d leave: got %d, want %d", x.where, need, used, got, want)
		}
	}
}

// describe names the form of a history for the count of those that were seen.
func (h *History) describe() string {
	name := h.form().String()
	if h.run == 0 {
		return name + " inline"
	}
	words := h.run.words()
	entries, size := int(h.n)-1, words
	if h.form() != narrow {
		size = (words - 1) / entryWords[h.form()]
		return fmt.Sprintf("%s run, large: %t, moved: %t", name, words > pageWords/4, h.head() > size/2)
	}
	return fmt.Sprintf("%s run, large: %t, wraps: %t", name, words > pageWords/4, h.head()+entries > size)
}

func (f form) String() string { return []string{"narrow", "packed", "wide", "bucket"}[f] }

// play drives several histories in one arena and lists with the same random operations, and
// compares all results of both after each.
func play(t *testing.T, r *rand.Rand, steps int, calm bool, seen map[string]int) {
	t.Helper()
	b := &counted{}
	a := &Arena{Budget: b}
	all := make([]player, 1+r.IntN(4))
	if calm {
		all = all[:1]
	}
	for i := range all {
		all[i] = player{t: t, r: r, calm: calm, budget: b, arena: a, h: Empty, p: plain{last: long}, now: 1_700_000_000_000_000, seen: seen}
		all[i].pickRule()
	}
	for step := range steps {
		i := r.IntN(len(all))
		all[i].where = fmt.Sprintf("step %d, history %d", step, i)
		all[i].step()
	}
	for i := range all {
		all[i].compareEntries()
		if all[i].h.Free(a); all[i].h != Empty {
			t.Fatalf("a freed history is %+v", all[i].h)
		}
	}
	if b.bytes > sharedBytes {
		t.Fatalf("%d bytes are taken without a history", b.bytes)
	}
	if a.Release(); b.bytes != 0 {
		t.Fatalf("%d bytes are lost", b.bytes)
	}
}

// TestHistoryIsAList: a history of any form has the same results as a list.
func TestHistoryIsAList(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(race.Fewer(240)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			if seed%16 == 0 {
				play(t, r, 12_000, true, seen)
				return
			}
			play(t, r, 3000, false, seen)
		})
		if t.Failed() {
			return
		}
	}
	for _, want := range []string{
		"narrow inline", "packed inline", "wide inline",
		"narrow run, large: false, wraps: false", "narrow run, large: false, wraps: true",
		"narrow run, large: true, wraps: false", "narrow run, large: true, wraps: true",
		"packed run, large: false, moved: false", "packed run, large: false, moved: true",
		"packed run, large: true, moved: false", "packed run, large: true, moved: true",
		"wide run, large: false, moved: false", "wide run, large: false, moved: true",
		"wide run, large: true, moved: false", "wide run, large: true, moved: true",
		"narrow grows to narrow", "narrow grows to packed", "narrow grows to wide",
		"packed grows to packed", "packed grows to wide", "wide grows to wide",
		"narrow in its run begins again as narrow", "narrow in its run begins again as packed", "narrow in its run begins again as wide",
		"packed in its run begins again as narrow", "packed in its run begins again as packed", "packed in its run begins again as wide",
		"wide in its run begins again as narrow", "wide in its run begins again as packed", "wide in its run begins again as wide",
		"narrow gets several as narrow", "narrow gets several as packed", "narrow gets several as wide",
		"packed gets several as packed", "packed gets several as wide", "wide gets several as wide",
		"narrow moves as narrow", "narrow moves as packed", "packed moves as packed", "wide moves as wide",
		"another drop", "refused", "TryRecord in a history that was narrow", "TryRecord in a history that was packed", "TryRecord in a history that was wide", "TryRecord leaves it to others",
	} {
		if seen[want] == 0 && !race.Enabled {
			t.Errorf("not seen: %s", want)
		}
		t.Logf("%7d %s", seen[want], want)
	}
}

func FuzzHistory(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint16(100))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		play(t, rand.New(rand.NewPCG(seed, 1)), int(steps%2000), seed%16 == 0, map[string]int{})
	})
}

// all returns the entries.
func (h *History) all(a *Arena) (all []Entry) {
	h.Each(a, func(end, units int64) { all = append(all, Entry{end, units}) })
	return all
}

// TestEndsFarApart: a history holds ends as far apart as the longest window and the widest cell
// make them, and farther.
func TestEndsFarApart(t *testing.T) {
	for _, apart := range []int64{814 * 86_400_000_000, endMask} {
		a, h := &Arena{Budget: unlimited{}}, Empty
		all := []Entry{{1_000_000, 1}, {2_000_000, 2}, {1_000_000 + apart, 3}}
		if !h.Replace(a, all, 5) || h.form() != packed || !slices.Equal(h.all(a), all) {
			t.Errorf("%d µs apart: got %v", apart, h.all(a))
		}
	}
}

func TestEnd(t *testing.T) {
	for _, c := range []struct{ cell, ahead, at, want int64 }{
		{0, 0, 0, 0}, {0, 0, 17, 17},
		{1, 1, 17, 18}, {10, 10, 0, 10}, {10, 10, 9, 10}, {10, 10, 10, 20},
		{10, 10, 1_700_000_000_000_001, 1_700_000_000_000_010},
		{10, 0, 0, 0}, {10, 0, 9, 0}, {10, 0, 10, 10}, {10, 0, 1_700_000_000_000_001, 1_700_000_000_000_000},
	} {
		r := Rule{Cell: c.cell, Ahead: c.ahead}
		assert.Equal(t, r.End(c.at), c.want, "cell %d, remembered %d ahead: the end of an entry of %d (R3, R9)", c.cell, c.ahead, c.at)
	}
}

// TestFixedFromFirst: units go into the window that is open, and are given back from it, to
// the microsecond (R3, R10).
func TestFixedFromFirst(t *testing.T) {
	r, h := Rule{Window: 10, FromFirst: true}, Empty
	a := Arena{Budget: unlimited{}}
	for _, at := range []int64{0, 100} {
		if end, holder := h.EndOf(&r, at), h.Holder(&r, at); end != at || holder != at {
			t.Errorf("without an entry, at %d: %d and %d, want %d", at, end, holder, at)
		}
	}
	h.Replace(&a, []Entry{{100, 1}}, 100)
	for _, c := range []struct{ at, end, holder int64 }{{100, 100, 100}, {109, 100, 100}, {110, 110, 110}, {99, 100, 99}} {
		if end, holder := h.EndOf(&r, c.at), h.Holder(&r, c.at); end != c.end || holder != c.holder {
			t.Errorf("at %d: into %d, held by %d, want %d and %d", c.at, end, holder, c.end, c.holder)
		}
	}
}
