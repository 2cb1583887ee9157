// Package audit plays the adversary of the scoreboard against a service or a program, and reports
// the most that it allows in one window.
//
// All moves use one key, because a stranger's service counts by the caller's address or token. So a
// silence of two windows stands between two moves: a counter of two windows has then forgotten all.
// A new key for each move was an alternative; it would need a template for requests.
package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/adversary"
)

// A Target decides requests.
type Target interface {
	// Ask makes one request. The error is a *Problem, or that of ctx: nothing was decided.
	Ask(ctx context.Context) (Answer, error)

	// Callers returns how many callers may use Ask at one time.
	Callers() int
}

// An Answer is one decision.
type Answer struct {
	Allowed bool
	Word    string // such as 200 or allow
}

// A Problem is a request without a decision.
type Problem struct {
	Reason string // goes on from the name of the target: "answers 404 Not Found"
	Next   string // the next step
	Away   bool   // nothing answers there
	Ends   bool   // no later request will have an answer
	Void   bool   // earlier answers may belong to other requests
}

func (p *Problem) Error() string { return p.Reason }

// A Plan is the limit that is claimed, and the bounds of an audit.
type Plan struct {
	Limit    int           // allowed requests in a window, 1 or more
	Window   time.Duration // 100ms or more
	Requests int           // requests, at most
	Time     time.Duration // the longest duration of the audit
}

const (
	callersTogether = 8
	polled          = 1   // windows: a burst and the next window lie in one span
	polls           = 200 // in a window
	silence         = 2   // windows between two moves

	// A limiter has denied before so many limits were used up, or there is none.
	unlimited = 10

	// After so many requests in a row without a decision the target is gone.
	errorsInARow = 10
)

// A move is one way to send requests.
type move struct {
	name, about string
	callers     int
	lasts       float64 // windows, with its polling
	play        func(callers []*adversary.Caller, window time.Duration) []adversary.Grant
}

// movesOf returns the moves for a target with some callers.
func movesOf(callers int) (moves []move) {
	for _, t := range adversary.Timings() {
		moves = append(moves, move{
			name:    t.Name,
			about:   t.About,
			callers: 1,
			lasts:   t.Lasts + polled,
			play: func(c []*adversary.Caller, window time.Duration) []adversary.Grant {
				t.Play(c[0], window)
				return c[0].Grants
			},
		})
	}
	if callers > 1 {
		moves = append(moves, move{
			name: fmt.Sprintf("%d callers", callers),
			about: fmt.Sprintf("one request, then requests of %d callers "+
				"from %.2f of its window on", callers, adversary.Edge),
			callers: callers,
			lasts:   adversary.Edge + polled,
			play:    adversary.Together,
		})
	}
	return moves
}

// Needs are the requests and the time of all moves, at most, while the limiter keeps about
// its limit.
type Needs struct {
	Moves    int
	Requests int
	Time     time.Duration
}

// Needs returns the requests and the time of the moves with a number of callers.
func (p Plan) Needs(callers int) Needs {
	moves := movesOf(callers)
	n := Needs{Moves: len(moves), Requests: 1}
	windows := float64(silence * (len(moves) - 1))
	for _, m := range moves {
		windows += m.lasts
		n.Requests += 2*p.Limit + int(m.lasts*polls)
	}
	n.Requests = max(n.Requests, unlimited*p.Limit)
	n.Time = time.Duration(windows * float64(p.Window))
	return n
}

// Reasons for which an audit ends before all its moves are played; a *Problem is one, too.
var (
	errRequests    = errors.New("the bound on requests was reached")
	errTime        = errors.New("the bound on time was reached")
	errInterrupted = errors.New("it was interrupted")
	errNoLimit     = errors.New("no limit was seen")
)

// A run is an audit that goes on.
type run struct {
	target Target
	plan   Plan
	ctx    context.Context // its cause is the reason of an early end
	end    context.CancelCauseFunc

	mu     sync.Mutex // protects the following
	sent   int
	counts counts
	inARow int // requests without a decision since the last decision
}

// Run plays all moves, until one of the bounds or the end of ctx. The error is a *Problem of the
// first request, or one that makes all answers void.
func Run(ctx context.Context, target Target, plan Plan) (*Result, error) {
	timed, stop := context.WithTimeoutCause(ctx, plan.Time, errTime)
	defer stop()
	ending, end := context.WithCancelCause(timed)
	defer end(nil)
	r := &run{target: target, plan: plan, ctx: ending, end: end, counts: newCounts()}

	base := time.Now()
	_, err := r.ask()
	if problem, ok := errors.AsType[*Problem](err); ok && timed.Err() == nil {
		return nil, problem
	}
	result := newResult(plan)
	moves := movesOf(target.Callers())
	for i, m := range moves {
		if i > 0 {
			r.keepSilence()
		}
		if ending.Err() != nil {
			break
		}
		grants := m.play(r.newCallers(m.callers, base), plan.Window)
		result.add(m, grants, base)
	}
	ended := context.Cause(ending)
	if ctx.Err() != nil {
		ended = errInterrupted
	}
	if problem, ok := errors.AsType[*Problem](ended); ok && problem.Void {
		return nil, problem
	}
	result.conclude(r.counts, time.Since(base), ended, len(moves))
	return result, nil
}

func (r *run) newCallers(n int, base time.Time) []*adversary.Caller {
	callers := make([]*adversary.Caller, n)
	for i := range callers {
		callers[i] = &adversary.Caller{
			Allow: func() bool {
				allowed, _ := r.ask() // an error is counted, and grants nothing
				return allowed
			},
			Base:   base,
			Pause:  max(time.Millisecond, r.plan.Window/polls) * time.Duration(n),
			Polled: polled,
			Limit:  r.plan.Limit,
			Done:   r.ctx.Done(),
		}
	}
	return callers
}

func (r *run) keepSilence() {
	select {
	case <-time.After(silence * r.plan.Window):
	case <-r.ctx.Done():
	}
}

// ask makes one request, unless the audit has ended, and counts its answer.
func (r *run) ask() (allowed bool, err error) {
	if !r.mayAsk() {
		return false, context.Cause(r.ctx)
	}
	a, err := r.target.Ask(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.countErrorLocked(err)
		return false, err
	}
	r.inARow = 0
	r.counts.answers[a]++
	hasNoLimit := r.counts.denied() == 0 && r.counts.allowed() >= unlimited*r.plan.Limit
	if hasNoLimit {
		r.end(errNoLimit)
	}
	return a.Allowed, nil
}

// mayAsk reports whether one more request is within the bounds, and counts it.
func (r *run) mayAsk() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	if r.sent >= r.plan.Requests {
		r.end(errRequests)
		return false
	}
	r.sent++
	return true
}

func (r *run) countErrorLocked(err error) {
	problem, ok := errors.AsType[*Problem](err)
	if !ok || r.ctx.Err() != nil {
		return // the request was cut off at the end of the audit
	}
	r.counts.errors[problem.Reason]++
	r.inARow++
	if problem.Ends || r.inARow >= errorsInARow {
		r.end(problem)
	}
}
