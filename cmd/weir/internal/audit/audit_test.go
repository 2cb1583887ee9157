package audit

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// limiter is a target in virtual time, in which requests take none and the numbers are exact.
type limiter struct {
	allow func() bool
	most  int // callers
	mu    sync.Mutex
	asked int
}

func (l *limiter) Callers() int { return l.most }

func (l *limiter) Ask(context.Context) (Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.allow() {
		return Answer{Allowed: true, Word: "allow"}, nil
	}
	return Answer{Word: "deny"}, nil
}

var plan = Plan{Limit: 20, Window: time.Second, Requests: 20_000, Time: time.Hour}

// rolling returns a limiter of weir.
func rolling(t *testing.T) func() bool {
	l, err := weir.New(weir.Policy{Name: "audit", Limits: []weir.Limit{weir.PerSecond(20)}})
	must.Do(t, err)
	return func() bool {
		d, err := l.Allow(t.Context(), weir.K())
		must.Do(t, err)
		return d.Allowed
	}
}

// fixedWindow returns a counter whose windows begin with the first request.
func fixedWindow() func() bool {
	var begun time.Time
	n := 0
	return func() bool {
		if time.Since(begun) >= plan.Window {
			begun, n = time.Now(), 0
		}
		n++
		return n <= plan.Limit
	}
}

// bucket returns a token bucket.
func bucket() func() bool {
	tokens, last := float64(plan.Limit), time.Now()
	return func() bool {
		now := time.Now()
		refill := now.Sub(last).Seconds() / plan.Window.Seconds() * float64(plan.Limit)
		tokens, last = min(float64(plan.Limit), tokens+refill), now
		if tokens < 1 {
			return false
		}
		tokens--
		return true
	}
}

// spaced allows one request in a tenth of a window.
func spaced() func() bool {
	var last time.Time
	return func() bool {
		now := time.Now()
		if now.Sub(last) < plan.Window/10 {
			return false
		}
		last = now
		return true
	}
}

// TestVerdicts: the numbers are exact, and the moves need no more than was announced.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		new     func(t *testing.T) func() bool
		worst   int
		verdict Verdict
		why     string
	}{
		{"weir", rolling, 20, Held, "no window had more than 20; an audit finds faults"},
		{"a fixed window", func(*testing.T) func() bool { return fixedWindow() }, 39, Broken,
			"39 requests were allowed in less than 1s, 19 above the limit"},
		{"a bucket", func(*testing.T) func() bool { return bucket() }, 39, Broken,
			"39 requests were allowed in less than 1s, 19 above the limit"},
		{"stricter", func(*testing.T) func() bool { return spaced() }, 10, Held,
			"no window had more than 10 of 20; the limit is stricter, or others use it up, too"},
	} {
		for _, callers := range []int{1, 8} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					target := &limiter{allow: c.new(t), most: callers}
					needs, began := plan.Needs(callers), time.Now()
					r, err := Run(t.Context(), target, plan)
					must.Do(t, err)
					if r.Verdict != c.verdict || !strings.Contains(r.Why, c.why) {
						t.Errorf("%d callers: %s: %s; want %s: %s", callers, r.Verdict, r.Why, c.verdict, c.why)
					}
					if r.Allowed != c.worst {
						t.Errorf("%d callers: %d in the worst window, want %d", callers, r.Allowed, c.worst)
					}
					if len(r.Moves) != needs.Moves || r.Requests != target.asked {
						t.Errorf("%d moves and %d requests, want %d and %d",
							len(r.Moves), r.Requests, needs.Moves, target.asked)
					}
					if took := time.Since(began); took > needs.Time+plan.Window/10 || r.Requests > needs.Requests {
						t.Errorf("%v and %d requests, announced were %v and %d",
							took, r.Requests, needs.Time, needs.Requests)
					}
				})
			})
		}
	}
}

// TestRequestsAreBounded: an audit ends with the last request, and with its result so far.
func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bounded := plan
		bounded.Requests = 250
		target := &limiter{allow: rolling(t), most: 8}
		r, err := Run(t.Context(), target, bounded)
		must.Do(t, err)
		if target.asked != 250 || r.Requests != 250 || r.Allowed != 20 {
			t.Errorf("%d requests, %d counted, %d in the worst window; want 250, 250 and 20",
				target.asked, r.Requests, r.Allowed)
		}
		want := "the bound on requests was reached in move 2 of 5"
		if r.Verdict != Undecided || r.Why != want || r.Next != "raise --max-requests" {
			t.Errorf("%s: %s; %s; want undecided: %s", r.Verdict, r.Why, r.Next, want)
		}
	})
}

// TestTenths: the text shows where the grants of the worst window lie.
func TestTenths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), &limiter{allow: bucket(), most: 1}, plan)
		must.Do(t, err)
		var b strings.Builder
		r.Write(&b)
		want := "\n  allowed in its tenths: 21 2 2 2 2 2 2 2 2 2\n"
		if !strings.Contains(b.String(), want) {
			t.Errorf("got %s, want a line %q", b.String(), want)
		}
	})
}
