package calls

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/nearest"
)

// Count returns the units that a rolling limit recorded in the last ms milliseconds (R11),
// and the limit. The Op of a is engine.Count, and its Limit may be "" if the policy has one.
//
// Other kinds are bad input: they store no instants, so the units of a span are unknown.
func Count(
	ctx context.Context, r *enforce.Rule, a *enforce.Request, ms int64,
) (n int64, limit *engine.Limit, err error) {
	field := func(name string) string { // in quotes for JSON, without for RESP
		if a.Via.(*Via).Protocol == observe.HTTP {
			return strconv.Quote(name)
		}
		return name
	}
	compiled := r.Limiter(&a.Target, time.Time{}).Compiled()
	all := compiled.Limits
	if a.Limit == "" {
		if len(all) > 1 {
			return 0, nil, BadInput("%s is missing: policy %q has several limits; name one of %s",
				field("limit"), compiled.Name, quoted(namesOf(all)))
		}
		a.Limit = all[0].Name
	}
	i := compiled.LimitNamed(a.Limit)
	if i < 0 {
		return 0, nil, BadInput("no limit %s in policy %q; %s",
			answer.Quoted(a.Limit), compiled.Name, suggestion(a.Limit, namesOf(all)))
	}
	limit = &all[i]
	if fault := answer.Uncounted(limit); fault != "" {
		isUncounted := func(l engine.Limit) bool { return answer.Uncounted(&l) != "" }
		rolling := slices.DeleteFunc(slices.Clone(all), isUncounted)
		next := "a peek returns its room"
		if len(rolling) > 0 {
			next += "; rolling limits of this policy: " + quoted(namesOf(rolling))
		}
		return 0, nil, BadInput("limit %q of policy %q %s; %s",
			limit.Name, compiled.Name, fault, next)
	}
	// A window that is no whole number of milliseconds is rounded up, as window_ms is, so the
	// whole window can be counted.
	window := time.Duration(limit.Window) * time.Microsecond
	if most := answer.Millis(window); ms < 1 || ms > most {
		return 0, nil, BadInput("%s must be 1 to %d, the window of limit %q in milliseconds; "+
			"a limit with a longer window counts further back", field("last_ms"), most, limit.Name)
	}
	a.Last = min(time.Duration(ms)*time.Millisecond, window)
	o, err := r.Decide(ctx, a)
	return o.Granted, limit, err
}

// suggestion returns the next step after an unknown limit.
func suggestion(name string, known []string) string {
	if near := nearest.Name(name, known); near != "" {
		return "did you mean " + strconv.Quote(near) + "?"
	}
	if len(known) == 1 {
		return "its only limit is " + strconv.Quote(known[0])
	}
	return "its limits are " + quoted(known)
}

func namesOf(limits []engine.Limit) (names []string) {
	for i := range limits {
		names = append(names, limits[i].Name)
	}
	return names
}

// quoted lists names for error messages.
func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }
