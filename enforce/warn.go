package enforce

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/policy"
)

// warnings finds the first grant of each key and window that reaches its limit's share.
//
// A window has its warning once it has a mark: the one unit that a limit of its own allows
// for each key and window. The grant that gets this unit carries the warning. So of all
// grants in all processes one does. An error of the mark's own step loses the warning and
// never changes the decision, which stands by then.
//
// The alternative, a flag in the history itself, would have cost every engine a new format.
type warnings struct {
	share  []int64         // by limit: percent, 1 … 100; 0 = it does not warn
	mark   []*weir.Limiter // by limit: nil if it does not warn
	key    [][]int         // by limit: for each value of mark's key, its index in the policy's key
	states bool            // decisions need the state of each limit: their Remaining is that of several, or of a block
}

// newWarnings returns nil for a policy without warnings. base is the plan of its own numbers.
func newWarnings(p *policy.Policy, base *weir.Plan, e weir.Engine) (*warnings, error) {
	if p.WarnPercents == nil {
		return nil, nil
	}
	if f, ok := e.(*fallback.Engine); ok {
		e = f.WithMode(fallback.FailClosed) // no mark is better than one that only this process sees
	}
	n := len(p.Limits)
	w := &warnings{make([]int64, n), make([]*weir.Limiter, n), make([][]int, n), n > 1 || p.Blocks != nil}
	for i := range p.Limits {
		if p.WarnAt(i) == 0 {
			continue
		}
		w.share[i] = int64(p.WarnAt(i))
		var err error
		if w.mark[i], err = weir.New(weir.Policy{Name: p.MarksName(), Limits: []weir.Limit{markLimit(base, i)}}, weir.WithEngine(e)); err != nil {
			return nil, err
		}
		for _, dim := range p.Limits[i].By {
			w.key[i] = append(w.key[i], slices.Index(base.Dimensions(), dim))
		}
	}
	return w, nil
}

// markLimit returns the limit that allows the marks of limit i. Marks of a limit
// with windows everywhere are at least a window apart. Windows that begin at certain
// instants have marks of their own: their end is a further value of the key.
func markLimit(base *weir.Plan, i int) weir.Limit {
	compiled, l := &base.Limits()[i], base.Policy().Limits[i]
	mark := weir.Limit{Name: l.Name, Max: 1, Window: l.Window, By: l.By}
	switch {
	case l.Kind == weir.Bucket:
		mark.Window = time.Microsecond * time.Duration(max(weir.MinWindow.Microseconds(), min(compiled.Keep(), weir.MaxWindow.Microseconds())))
	case hasWindows(l.Kind):
		mark.Window = time.Microsecond * time.Duration(min(compiled.Keep(), weir.MaxWindow.Microseconds()))
		end := "end"
		for slices.Contains(l.By, end) {
			end += "-"
		}
		mark.By = append(slices.Clone(l.By), end)
	}
	return mark
}

// hasWindows reports whether the windows of a kind begin at certain instants.
func hasWindows(k weir.Kind) bool { return k == weir.Calendar || k == weir.FirstHit }

// windowEnd returns the first instant behind the window that contains at. reset is the
// number of microseconds until no unit counts.
func windowEnd(l *weir.PlanLimit, at, reset int64) int64 {
	switch {
	case l.Kind == weir.FirstHit:
		return at + reset
	case l.Period != nil:
		_, end := l.Period.Around(at)
		return end
	}
	return at - at%l.Window + l.Window
}

// reached reports whether used units are at least percent of the capacity. All numbers are
// at most 2^54, so the products fit.
func reached(used, capacity, percent int64) bool { return used*100 >= capacity*percent }

// decideWithWarnings is decide for a policy with warnings.
func (r *Rule) decideWithWarnings(ctx context.Context, o *Outcome, op weir.Op, a *Request) (weir.Decision, error) {
	charges := a.N > 0 && (op == weir.OpAttempt || op == weir.OpRecord && r.ChargeOn == policy.Reported)
	if charges {
		a = r.withStates(a)
	}
	d, err := r.decide(ctx, o, op, a)
	if charges && err == nil {
		r.warnOf(ctx, o, a, &d)
	}
	return d, err
}

// withStates returns a, with room for states if warnings need them.
func (r *Rule) withStates(a *Request) *Request {
	if a.States != nil || r.warnings == nil || !r.warnings.states {
		return a
	}
	with := *a
	with.States = make([]weir.LimitState, len(r.Limits))
	return &with
}

// warnOf adds the warnings of d, if it is a new grant, to o.
func (r *Rule) warnOf(ctx context.Context, o *Outcome, a *Request, d *weir.Decision) {
	if r.warnings != nil && d.Allowed && d.Granted > 0 && !d.Degraded && !d.Replayed {
		o.Applied.Warnings = r.warn(ctx, o, a, d)
	}
}

// warn returns the limits with a warning: the grant d is the first at their share in a window.
func (r *Rule) warn(ctx context.Context, o *Outcome, a *Request, d *weir.Decision) (warned []string) {
	limits := o.Limiter.Plan().Limits()
	for i, percent := range r.warnings.share {
		used, reset := limits[i].Capacity-d.Remaining, d.ResetAfter
		if s := a.States; s != nil {
			if s[i].Name == "" { // unknown
				continue
			}
			used, reset = s[i].Used, s[i].ResetAfter // a running block changes Remaining
		}
		if percent == 0 || !reached(used, limits[i].Capacity, percent) {
			continue
		}
		m, err := r.warnings.mark[i].Decide(ctx, r.warnings.keyOf(&limits[i], i, &a.Key, d.At.UnixMicro(), reset.Microseconds()),
			weir.Request{Op: weir.OpAttempt, N: 1, At: d.At}) // at the instant of the grant, so that marks are as far apart as grants
		if err == nil && m.Allowed && !m.Degraded {
			warned = append(warned, limits[i].Name)
		}
	}
	return warned
}

// keyOf returns the key of the mark of limit i at an instant of the policy's key.
func (w *warnings) keyOf(l *weir.PlanLimit, i int, key *weir.Key, at, reset int64) weir.Key {
	var few [weir.MaxDimensions]string
	values := few[:0]
	for _, j := range w.key[i] {
		values = append(values, key.Value(j))
	}
	if hasWindows(l.Kind) {
		values = append(values, strconv.FormatInt(windowEnd(l, at, reset), 10))
	}
	return weir.K(values...)
}

// marked is a mark of a key.
type marked struct {
	mark *weir.Limiter
	key  weir.Key
}

// marks returns the marks that a key can have at an instant.
func (r *Rule) marks(ctx context.Context, key *weir.Key, at time.Time) ([]marked, error) {
	limits, states := r.base.Limiter.Plan().Limits(), make([]weir.LimitState, len(r.Limits))
	d, err := r.base.Limiter.Decide(ctx, *key, weir.Request{Op: weir.OpPeek, At: at, States: states})
	if err != nil {
		return nil, err
	}
	var all []marked
	for i, mark := range r.warnings.mark {
		if mark != nil {
			all = append(all, marked{mark, r.warnings.keyOf(&limits[i], i, key, d.At.UnixMicro(), states[i].ResetAfter.Microseconds())})
		}
	}
	return all, nil
}
