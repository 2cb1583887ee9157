package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// sizes makes large batches, a long history and keys of the most dimensions, and checks the
// fields that an operation leaves zero. It returns a report of the first wrong answer, or "".
func sizes(e engine.Engine, c Config) string {
	if problem := longHistory(e); problem != "" {
		return fmt.Sprintf("%s\n  %s", problem, quoteRule(3))
	}
	if problem := wideKeys(e); problem != "" {
		return fmt.Sprintf("%s\n  %s", problem, quoteRule(14))
	}
	if problem := zeroFields(e, c); problem != "" {
		return fmt.Sprintf("%s\n  %s", problem, quoteRule(15))
	}
	return ""
}

// longHistory fills a history of 1,500 units in batches of 300 calls.
func longHistory(e engine.Engine) string {
	const batch, most = 300, 1500
	rules, err := weir.Policy{Name: freshPrefix() + "long", Limits: []weir.Limit{{Max: most, Window: time.Hour}}}.Compile()
	if err != nil {
		return err.Error()
	}
	for done := 0; done <= most; done += batch {
		calls := make([]engine.Call, batch)
		for i := range calls {
			calls[i] = engine.Call{Rules: rules, N: 1}
		}
		e.Do(context.Background(), calls)
		for i := range calls {
			left := int64(max(0, most-done-i-1))
			if r := calls[i].Result; calls[i].Err != nil || r.Allowed != (done < most) || r.Remaining != left {
				return fmt.Sprintf("call %d of 1 of %d units, in batches of %d: %+v, %v; want it allowed: %t, %d remaining",
					done+i, most, batch, r, calls[i].Err, done < most, left)
			}
		}
	}
	return ""
}

// wideKeys charges keys that differ in one of the most dimensions. Each has a history.
func wideKeys(e engine.Engine) string {
	p := weir.Policy{Name: freshPrefix() + "wide", Limits: []weir.Limit{{Max: 1, Window: time.Hour}}}
	values := make([]string, 16) // the most dimensions of a policy
	for i := range values {
		p.Limits[0].By = append(p.Limits[0].By, fmt.Sprint("d", i))
	}
	p.Dimensions = p.Limits[0].By
	rules, err := p.Compile()
	if err != nil {
		return err.Error()
	}
	for other := range 2 * (1 + len(values)) { // each key twice, and first the one of empty values
		clear(values)
		if other > 1 {
			values[other/2-1] = "other"
		}
		calls := []engine.Call{{Rules: rules, Key: weir.K(values...), N: 1}}
		e.Do(context.Background(), calls)
		if calls[0].Err != nil || calls[0].Result.Allowed != (other%2 == 0) {
			return fmt.Sprintf("attempt %d of 1 unit of %q: %+v, %v", other%2, values, calls[0].Result, calls[0].Err)
		}
	}
	return ""
}

// zeroFields makes an operation of each kind and one that is bad input. A failed call and a
// reset have the zero result, a count only units, and a refund units and its instant.
func zeroFields(e engine.Engine, c Config) string {
	rules, err := weir.Policy{Name: freshPrefix() + "fields", Limits: []weir.Limit{{Max: 5, Window: time.Hour}}}.Compile()
	if err != nil {
		return err.Error()
	}
	for _, call := range []engine.Call{
		{Op: engine.Attempt, N: 1, ID: "id"}, {Op: engine.Attempt, N: 2, ID: "id"}, {Op: engine.Attempt, N: 6}, {Op: engine.Peek},
		{Op: engine.Record, N: 2}, {Op: engine.Count, From: 1}, {Op: engine.Refund, N: 1, From: engine.Oldest}, {Op: engine.Reset},
	} {
		call.Rules = rules
		if c.Claims != nil && !c.Claims(&call) {
			continue
		}
		calls := []engine.Call{call}
		e.Do(context.Background(), calls)
		got, want := calls[0].Result, engine.Result{}
		switch {
		case calls[0].Err != nil || call.Op == engine.Reset:
		case call.Op == engine.Count:
			want.Granted = got.Granted
		case call.Op == engine.Refund:
			want.Granted, want.At = got.Granted, got.At
		default: // package weir sets the numbers of the limit
			want = got
			want.Kind, want.Max, want.Window, want.Used = 0, 0, 0, 0
		}
		if got != want || (calls[0].Err != nil) != (call.N == 2 && call.ID != "") {
			return fmt.Sprintf("%v of %d units with id %q: %+v, %v; want the other fields zero: %+v", call.Op, call.N, call.ID, got, calls[0].Err, want)
		}
	}
	return ""
}
