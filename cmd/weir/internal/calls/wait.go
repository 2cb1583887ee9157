package calls

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// AnyWait is the longest wait of a caller who waits as long as the policy allows.
const AnyWait = -1

// WaitBounds is the range of a longest wait, for messages.
var WaitBounds = fmt.Sprintf("0 to %d, or %d for as long as the policy allows",
	weir.MaxWindow.Milliseconds(), AnyWait)

// MaxWait converts the longest wait of an attempt, in milliseconds or AnyWait (R18). Its bound is the
// max-wait of the policy file, by default the longest window: beyond that a caller would book a
// further one. name is the parameter in the error message.
func MaxWait(p *enforce.Rule, ms int64, name string) (time.Duration, error) {
	if ms == 0 {
		return 0, nil
	}
	if reason := reasonNotToWait(p); reason != "" {
		return 0, BadInput("%s: policy %s %s; leave it out", name, p.Name, reason)
	}
	most := min(cmp.Or(p.MaxWait, p.Compiled.LongestWindow), weir.MaxWindow)
	if ms == AnyWait {
		return most, nil
	}
	if ms >= 0 && ms <= most.Milliseconds() {
		return time.Duration(ms) * time.Millisecond, nil
	}
	bound := "max-wait of " + p.Name
	if p.MaxWait == 0 {
		bound = "the longest window of " + p.Name + ", which has no max-wait"
	}
	return 0, BadInput("%s must be 0 to %d: %s", name, most.Milliseconds(), bound)
}

// reasonNotToWait returns the reason why no attempt of a policy can wait, or "".
func reasonNotToWait(p *enforce.Rule) string {
	isHold := func(l engine.Limit) bool { return answer.Holds(l.Kind) }
	switch {
	case p.Mode == weir.CountDenied:
		return "counts denied attempts, so none of them can wait"
	case p.Reported:
		return "counts reported units, so an attempt takes nothing for which it could wait"
	case slices.ContainsFunc(p.Compiled.Limits, isHold):
		return "has a concurrency limit, and nobody knows when its units are released"
	}
	return ""
}
