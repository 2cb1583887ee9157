package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// attemptsPerInspection is the number of attempts of the differential for each inspected key.
const attemptsPerInspection = 10

// inspections applies random histories and inspects keys between their steps, if the engine shows
// histories. It returns a report of the first difference from the specification, or "". The
// steps that follow an inspection show whether it changed anything.
func inspections(e engine.Engine, c Config) string {
	epoch := int64(defaultEpoch)
	shown := false
	for n, history := 0, 0; n < c.Attempts/attemptsPerInspection; history++ {
		r := rand.New(rand.NewPCG(c.Seed, 1<<37+uint64(history)))
		g := newRandomHistory(r, c, epoch)
		if far := farEpoch(r); far > 0 {
			g.v.epoch, g.contract.epoch = far, far
			g.late = far > weir.MaxInstant-3*weir.MaxWindow.Microseconds()
		}
		g.v.write()
		d := inspection{g: g, want: validSession(c.spec(), g.v), got: validSession(e, g.v)}
		d.shown = shown
		for range 20 + r.IntN(60) {
			problem := d.play(g.next())
			if d.showsNothing {
				return ""
			}
			if problem != "" {
				return fmt.Sprintf("seed %d, inspected history %d: %s\nThe history:\n\n%s",
					c.Seed, history, problem, g.v.text())
			}
		}
		shown = d.shown
		if n += max(1, d.made); g.v.epoch == epoch {
			epoch += g.contract.high.Microseconds()
		}
	}
	return ""
}

// inspection is a random history on a specification and an engine that are inspected.
type inspection struct {
	g         *randomHistory
	want, got *session
	made      int // inspections so far

	// shown: the engine has set the histories of a peek before. showsNothing: it has decided the
	// first peek without.
	shown, showsNothing bool
}

// play applies a step to both, and mostly inspects its key before. It returns the first
// difference, or "".
func (d *inspection) play(s step) string {
	if !s.callsEngine() {
		mustBeValid(d.want.apply(s))
		mustBeValid(d.got.apply(s))
		d.g.observe(s, answer{})
		return ""
	}
	isWhole := len(s.key) == len(d.want.limiter.Compiled().Dimensions)
	if isWhole && s.op != opReset && d.g.r.IntN(3) > 0 {
		d.made++
		if problem := d.inspect(s); problem != "" {
			return "inspected before the step " + s.text() + ":\n" + problem
		}
	}
	a, got := d.want.do(s), d.got.do(s)
	if d.g.observe(s, a); !a.equal(got) {
		return "the answers to the last step differ: " + got.text(s, d.got.epoch)
	}
	return ""
}

// inspect inspects the key of a step at its instant.
func (d *inspection) inspect(s step) string {
	n := d.g.r.Int64N(3)
	wantCall, want := d.want.inspect(s, n)
	gotCall, got := d.got.inspect(s, n)
	switch {
	case wantCall.Err != nil && gotCall.Err != nil || errors.Is(wantCall.Err, errUnclaimed):
		return ""
	case wantCall.Err != nil || gotCall.Err != nil:
		return fmt.Sprintf("error %v, want %v", gotCall.Err, wantCall.Err)
	case got == nil && !d.shown:
		d.showsNothing = true
		return ""
	case wantCall.Result != gotCall.Result:
		return fmt.Sprintf("the result is %+v\nwant %+v", gotCall.Result, wantCall.Result)
	case !slices.Equal(wantCall.States, gotCall.States):
		return fmt.Sprintf("the states are %+v\nwant %+v", gotCall.States, wantCall.States)
	case len(got) != len(want):
		return fmt.Sprintf("%d histories, want %d", len(got), len(want))
	}
	d.shown = true
	for i := range want {
		limit := &wantCall.Rules.Limits[i]
		if problem := compareHistories(&got[i], &want[i]); problem != "" {
			return fmt.Sprintf("limit %s: %s\n got %+v\nwant %+v", limit.Name, problem, got[i], want[i])
		}
		if problem := d.got.compareCount(&gotCall, i, &got[i]); problem != "" {
			return fmt.Sprintf("limit %s: %s\n got %+v", limit.Name, problem, got[i])
		}
	}
	return ""
}

// inspect inspects the key of a step by a peek of n units.
func (s *session) inspect(st step, n int64) (engine.Call, []engine.History) {
	rules := s.limiter.Compiled()
	c := engine.Call{
		Rules:  rules,
		Op:     engine.Peek,
		N:      n,
		At:     max(0, min(s.instant(st.at).UnixMicro(), engine.MaxInstant)),
		Given:  true,
		States: make([]engine.State, len(rules.Limits)),
	}
	for _, name := range rules.Dimensions {
		for _, part := range st.key {
			if part.dim == name {
				c.Key.Append(part.value)
			}
		}
	}
	if err := rules.CheckKey(&c.Key); err != nil { // an engine gets no such key (R14)
		c.Fail(err)
		return c, nil
	}
	var histories []engine.History
	c.Histories = &histories
	calls := []engine.Call{c}
	s.engine.Do(context.Background(), calls)
	return calls[0], histories
}

// compareHistories names the first difference of two histories, or "". An engine need not know the
// reservations of holds, but those that it names hold these units.
func compareHistories(got, want *engine.History) string {
	switch {
	case !slices.Equal(merged(got.Entries), merged(want.Entries)) || got.Older != want.Older:
		return "other entries"
	case !slices.Equal(got.Ahead, want.Ahead) || got.Later != want.Later:
		return "other appointments"
	case got.Start != want.Start || got.End != want.End:
		return "another open window"
	}
	for _, e := range got.Entries {
		if e.ID != "" && !slices.Contains(want.Entries, e) {
			return fmt.Sprintf("the hold %+v", e)
		}
	}
	return ""
}

// merged returns entries without the reservations of holds.
func merged(entries []engine.Entry) (all []engine.Entry) {
	for _, e := range entries {
		if n := len(all); n > 0 && all[n-1].At == e.At {
			all[n-1].Units += e.Units
			continue
		}
		all = append(all, engine.Entry{At: e.At, Units: e.Units})
	}
	return all
}

// compareCount compares the units of a history with the state of its limit and, of a limit with
// entries, with a Count at the same instant. A Count reads one history alone, so another one moves
// only the instant of the inspection (R2).
func (s *session) compareCount(inspected *engine.Call, i int, h *engine.History) string {
	if h.Older > 0 || h.Later > 0 || inspected.States[i].Name == "" {
		return ""
	}
	entries, ahead := sumOf(h.Entries), sumOf(h.Ahead)
	state, limit := &inspected.States[i], &inspected.Rules.Limits[i]
	if ahead != state.Ahead || limit.Kind != engine.KindBucket && entries+ahead != state.Used {
		return fmt.Sprintf("%d units and %d ahead, and the state %+v", entries, ahead, *state)
	}
	moved := inspected.Result.At.UnixMicro() != inspected.At
	if limit.Kind == engine.KindBucket || moved {
		return ""
	}
	c := engine.Call{
		Rules: inspected.Rules,
		Key:   inspected.Key,
		Op:    engine.Count,
		From:  limit.Window,
		Limit: i,
		At:    inspected.At,
		Given: true,
	}
	calls := []engine.Call{c}
	s.engine.Do(context.Background(), calls)
	if got := calls[0].Result.Granted; calls[0].Err != nil || got != entries {
		return fmt.Sprintf("%d units, and a count of %d, %v", entries, got, calls[0].Err)
	}
	return ""
}

func sumOf(entries []engine.Entry) (units int64) {
	for _, e := range entries {
		units += e.Units
	}
	return units
}
