package conformance

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// fromStore is a denial that the engine did not mark Cached.
type fromStore struct {
	step     string // its text without the instant
	decision weir.Decision
}

// rememberDenial keeps a denial that the engine may repeat. A denial of CountDenied is recorded,
// so it is never repeated (R6).
func (g *liveHistory) rememberDenial(s step, a answer) {
	d := a.decision
	if s.op == opTake && a.err == "" && s.n > 0 && !d.Allowed && !d.Cached && g.v.policies[0].mode != weir.CountDenied {
		s.at = 0
		g.fromStore = append(g.fromStore, fromStore{s.text(), d})
	}
}

// repeated returns the answer that got repeats (R8): that of an earlier denial of the same
// attempt, which is younger than the time for which the engine caches denials. It reports
// false if there is none. Processes on one store have caches of their own, so the denial
// need not be the latest.
func (g *liveHistory) repeated(s step, got answer) (want answer, ok bool) {
	s.at = 0
	for _, denial := range g.fromStore {
		age := got.decision.At.Sub(denial.decision.At)
		if denial.step != s.text() || age < 0 || age >= g.cacheTTL {
			continue
		}
		want, ok = answer{decision: repeatedAfter(denial.decision, age)}, true
		if want.equal(got) {
			break
		}
	}
	return want, ok
}

// repeatedAfter returns a denial as an engine on a shared store may repeat it from memory
// after that time (R8): marked, at a later instant, with waits that end when they ended
// before. The specification has no memory of denials.
func repeatedAfter(d weir.Decision, after time.Duration) weir.Decision {
	d.Cached, d.At = true, d.At.Add(after)
	if d.RetryAfter != weir.Never {
		d.RetryAfter -= after
	}
	d.ResetAfter = max(0, d.ResetAfter-after)
	d.Blocked = max(0, d.Blocked-after)
	return d
}

// wanted returns the right answer to a step. got is that of the engine.
func (g *liveHistory) wanted(s step, got answer) answer {
	if !got.decision.Cached {
		return g.want.do(s)
	}
	repeated, ok := g.repeated(s, got)
	if ok && (g.separate || !repeated.equal(got)) {
		return repeated
	}
	want := g.want.do(s) // one process sees its own calls, so the answer is also exact
	want.decision.Cached = ok
	return want
}

// checkMark returns an error for a decision that must not be marked Cached. An engine that
// shares no store caches no denials; others repeat only denials, and never an operation with
// an id, which the store may know.
func (c *Config) checkMark(d *weir.Decision, mode weir.Mode, id string) error {
	reason := ""
	switch {
	case !d.Cached:
	case c.CacheTTL == 0:
		reason = "though the engine caches no denials"
	case d.Allowed || d.Granted > 0:
		reason = "though it grants"
	case mode == weir.CountDenied:
		reason = "though the denial must be recorded"
	case id != "":
		reason = "though it has an idempotency key"
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("a decision is marked Cached, %s: %v\n  %s", reason, d, quoteRule(8))
}
