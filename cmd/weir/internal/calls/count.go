package calls

import (
	"context"
	"fmt"
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
// and the limit. name may be "" if the policy has one limit.
//
// Other kinds are bad input: they store no instants, so the units of a span are unknown.
func Count(ctx context.Context, r *enforce.Rule, via *Via, t enforce.Target, name string, ms int64) (n int64, limit *engine.Limit, err error) {
	if limit, err = countedLimit(r.Limiter(&t, time.Time{}).Compiled(), via.Protocol, name); err != nil {
		return 0, nil, err
	}
	last, err := spanOf(limit, via.Protocol, ms)
	if err != nil {
		return 0, nil, err
	}
	o, err := r.Decide(ctx, &enforce.Request{Target: t, Op: engine.Count, Limit: limit.Name, Last: last, Via: via})
	return o.Granted, limit, err
}

// countedLimit returns the limit of a count, or the reason why there is none.
func countedLimit(compiled *engine.Compiled, from observe.Protocol, name string) (*engine.Limit, error) {
	all := compiled.Limits
	if name == "" {
		if len(all) > 1 {
			return nil, BadInput(fmt.Sprintf("%s is missing: policy %q has several limits; name one of %s", field(from, "limit"), compiled.Name, names(all)))
		}
		name = all[0].Name
	}
	i := compiled.LimitNamed(name)
	if i < 0 {
		return nil, BadInput(fmt.Sprintf("no limit %s in policy %q; %s", answer.Quoted(name), compiled.Name, suggestion(name, all)))
	}
	limit := &all[i]
	fault := answer.Uncounted(limit)
	if fault == "" {
		return limit, nil
	}
	next := "a peek returns its room"
	if rolling := rollingOf(all); len(rolling) > 0 {
		next += "; rolling limits of this policy: " + names(rolling)
	}
	return nil, BadInput(fmt.Sprintf("limit %q of policy %q %s; %s", limit.Name, compiled.Name, fault, next))
}

// suggestion returns the next step after an unknown limit.
func suggestion(name string, all []engine.Limit) string {
	var known []string
	for i := range all {
		known = append(known, all[i].Name)
	}
	switch near := nearest.Name(name, known); {
	case near != "":
		return "did you mean " + strconv.Quote(near) + "?"
	case len(all) == 1:
		return "its only limit is " + strconv.Quote(all[0].Name)
	}
	return "its limits are " + names(all)
}

// spanOf returns the span of ms milliseconds. A window that is no whole number of them is
// rounded up, as window_ms is, so the whole window can be counted.
func spanOf(l *engine.Limit, from observe.Protocol, ms int64) (time.Duration, error) {
	window := time.Duration(l.Window) * time.Microsecond
	if most := answer.Millis(window); ms < 1 || ms > most {
		return 0, BadInput(fmt.Sprintf("%s must be 1 to %d, the window of limit %q in milliseconds; a limit with a longer window counts further back",
			field(from, "last_ms"), most, l.Name))
	}
	return min(time.Duration(ms)*time.Millisecond, window), nil
}

// field returns the name of an argument as callers of a protocol write it.
func field(from observe.Protocol, name string) string {
	if from == observe.HTTP {
		return strconv.Quote(name)
	}
	return name
}

// rollingOf returns the limits that can be counted.
func rollingOf(all []engine.Limit) (rolling []engine.Limit) {
	for i := range all {
		if answer.Uncounted(&all[i]) == "" {
			rolling = append(rolling, all[i])
		}
	}
	return rolling
}

// names lists limits for error messages.
func names(limits []engine.Limit) string {
	var all []string
	for i := range limits {
		all = append(all, strconv.Quote(limits[i].Name))
	}
	return strings.Join(all, ", ")
}
