// Package fallback keeps a program deciding while its store is slow or gone (R15).
//
// An [Engine] wraps the engine of a store. While the store answers, its answers
// pass through unchanged. The wrapper adds a timeout to every call, a circuit
// breaker that stops calling a failing store, and a mode that decides in the
// store's place:
//
//	store, err := weirredis.New(conn)
//	engine := fallback.New(store, fallback.Share, fallback.Instances(4))
//	limiter, err := weir.New(policy, weir.WithEngine(engine))
//
// The trade-off is availability against exactness. [Deny] keeps every limit
// and stops the work. [Allow] keeps the work going without limits. [Share] grants
// each process a share; a window across the edge of an outage holds at most twice
// Max. docs/outages.md compares them.
package fallback

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/internal/option"
	"github.com/weirlimit/weir/internal/outagelog"
)

// The modes: the decision for calls that the store cannot decide (R15). An unknown mode is
// Deny.
const (
	// Deny returns the store's error: no decision, nothing allowed. The limits
	// hold and the work waits.
	Deny = engine.OutageDeny

	// Allow allows everything that an empty store would allow and records nothing.
	// Attempts of more than a limit's Max are still denied. No limit holds during the
	// outage.
	Allow = engine.OutageAllow

	// Share decides by a share of every limit in the memory of this process. With
	// [Instances] of n, each share is Max/n rounded down. A window holds at most
	// 2 * Max: Max granted by the store and Max granted by all shares together.
	// MinInterval holds within each process, not between processes.
	Share = engine.OutageShare
)

// Engine is an [engine.Engine] around the engine of a store. While the store is out:
//
//   - Decisions follow the mode, or that of the limiter ([weir.WithOutage]), and are marked
//     Degraded. In Allow, Remaining, ResetAfter and the states are zero, because they are
//     unknown. In Share they are those of the share; the states count the shares of other
//     processes as used. RetryAfter is one second where the store could grant the attempt
//     and the share never can.
//   - Records are allowed. Allow drops them, Share records them in the share.
//   - Refund, Count, Reset and Block return an error in every mode, because only the store
//     has the data. Reset also resets the share, during an outage or not.
//   - Allow and Share open reservations in the memory of this process (R19). They are settled and
//     extended there, also after the outage; another process does not know them. Allow holds
//     nothing for them. An attempt that has opened one in the store, and is repeated with its id,
//     opens a second one here. Reservations of the store wait for the store: their settlement and their
//     extension return an error in every mode.
//   - An attempt that may wait (R18) starts now in Allow. Share grants it by its share, ahead if need
//     be: the appointment is in the memory of this process and holds there, also after the outage. A
//     refund cancels it there before its start. Appointments of the store are not known, so a
//     caller that makes one during the outage does not stand behind them.
//   - No block begins, and those of the store are not known (R20). A probe is a peek.
//
// Some errors concern the call and not the store: bad input (R14), ErrOverflow,
// ErrFull, ErrSettled, ErrExpired, and the end of the caller's own context. They are returned in
// every mode and do not count as failures.
//
// Every call of the zero or nil Engine is an [engine.InputError], in every mode.
//
// A call without an answer may have been recorded (ErrOutcomeUnknown). It is never sent
// a second time. Allow and Share decide it like any other call, so it may count in
// the store and in the share.
type Engine struct {
	engine  engine.Engine
	mode    engine.Outage
	timeout time.Duration // 0 = none
	breaker breaker
	share   localShare // decides in mode Share
	open    localOpen  // decides in mode Allow

	outages   outagelog.Log   // failures of the store
	faults    outagelog.Rare  // keys with unreadable data
	probing   context.Context // ends with Close
	endProbes context.CancelFunc

	failures, timeouts, degraded atomic.Int64
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine that decides by e and, while e cannot, by mode. Without e it decides
// nothing, like the zero Engine.
//
// In mode Share a limit with a Max below [Instances] has a share of 0 units and denies
// everything during an outage.
//
// Calls that the store cannot decide are logged ([ErrorLog]). While the store is down it is probed:
// by calls every 100 to 500 ms or, while none come, by a timer after 0.5 to 5 seconds. That probe
// is an attempt of a policy with the name weir-probe, which counts for one second. Close ends the
// timer. While the store is up there is neither a timer nor a goroutine.
func New(e engine.Engine, mode engine.Outage, opts ...Option) *Engine {
	if isnil.Is(e) {
		return new(Engine)
	}
	c := config{timeout: 50 * time.Millisecond, threshold: 5, instances: 1}
	option.Apply(&c, opts)
	if neverWaits(e) {
		c.timeout = 0
	}
	f := &Engine{engine: e, mode: mode, timeout: c.timeout}
	f.share.memory, f.share.instances = memory.New(memory.Options{}), c.instances
	f.open.memory = f.share.memory
	f.breaker.threshold, f.breaker.since = c.threshold, time.Now()
	f.breaker.onChange = c.onStoreState
	f.probing, f.endProbes = context.WithCancel(context.Background())
	f.breaker.probe = f.probe
	f.breaker.onFailing = f.outages.Set
	f.outages.Down = "weir: the store does not decide; calls are decided without it"
	f.outages.Up = "weir: the store decides again"
	f.faults.Message = "weir: the store cannot read the data of a key; " +
		"its calls are decided without the store"
	f.outages.To, f.faults.To = c.errorLog, c.errorLog
	return f
}

// neverWaits reports whether e is a memory engine, also inside [weir.Observe].
func neverWaits(e engine.Engine) bool {
	for {
		around, ok := e.(interface{ Observed() engine.Engine })
		if !ok {
			break
		}
		e = around.Observed()
	}
	_, ok := e.(*weir.Memory)
	return ok
}

// isZero reports whether the engine has no store.
func (f *Engine) isZero() bool { return f == nil || f.engine == nil }

// Close ends the probes of a store that is down, and logs a change that is not logged yet. The
// engine still decides, and calls still probe the store. The engine of the store stays open.
func (f *Engine) Close() {
	if f.isZero() {
		return
	}
	f.breaker.end()
	f.endProbes()
	f.outages.Close()
}

// modeOf returns the mode of a call.
func (f *Engine) modeOf(c *engine.Call) engine.Outage {
	switch c.Outage {
	case engine.OutageDefault:
		return f.mode
	case engine.OutageShareOrStricter:
		if f.mode == Allow {
			return Share
		}
		return f.mode
	}
	return c.Outage
}

// Do decides calls by one call of the store or, while the store is out, by their modes. The
// timeout is for all calls together.
func (f *Engine) Do(ctx context.Context, calls []engine.Call) {
	if f.isZero() || ctx == nil {
		misuse.Fail(ctx, calls, constructor)
		return
	}
	var room [8]*engine.Call
	open := room[:0] // the calls for the store
	for i := range calls {
		c := &calls[i]
		if c.Err != nil {
			continue
		}
		c.Fail(nil)
		switch {
		case c.Histories != nil:
			f.inspect(ctx, c)
		case !f.decidedHere(c):
			open = append(open, c)
		}
	}
	if len(open) > 0 {
		f.decideCalls(ctx, calls, open)
	}
	for i := range calls {
		if calls[i].Err == errDecided {
			calls[i].Err = nil
		}
	}
}

// errDecided marks a call that the store skips, because it is decided: in this process, or by a
// call of its own.
var errDecided = errors.New("the call is decided already")

// decidedHere decides a call about an earlier operation that was decided in this process, and
// reports whether there is one: a repeated operation of the share, a repeated reservation, the
// settlement or extension of one, and the refund that cancels an appointment of the share. The
// store does not know them, and would charge a repetition again. A reset also resets the share.
func (f *Engine) decidedHere(c *engine.Call) bool {
	decided := false
	switch mode := f.modeOf(c); {
	case c.Op == engine.Reset:
		if mode == Share {
			f.share.reset(c)
		}
	case c.Op == engine.Refund:
		decided = mode == Share && f.share.cancel(c)
	case c.ID == "":
	case c.Op == engine.Settle || c.Op == engine.Extend:
		decided = f.share.changeReservation(c) || f.open.changeReservation(c)
	case mode == Share:
		decided = f.share.replay(c)
	case mode == Allow:
		decided = f.open.replay(c)
	}
	if decided && c.Err == nil {
		f.degraded.Add(1)
		c.Err = errDecided
	}
	return decided
}

// decideCalls sends calls to the store if the breaker permits it, and decides the open ones that
// have no answer then.
func (f *Engine) decideCalls(ctx context.Context, calls []engine.Call, open []*engine.Call) {
	probe, rejected := f.breaker.admit()
	if rejected != nil {
		ended := callerError(ctx)
		for _, c := range open {
			if ended != nil { // a grant is of no use to the caller
				c.Fail(ended)
			} else {
				f.decideWithout(c, rejected)
			}
		}
		return
	}
	worst, cause := unrelated, error(nil)
	if probe {
		defer func() { f.breaker.release(worst > unrelated) }()
	}
	f.send(ctx, calls)
	for _, c := range open {
		class := f.classify(ctx, c)
		if class > worst {
			worst, cause = class, c.Err
		}
		if class >= unreadable {
			f.decideWithout(c, c.Err)
		}
	}
	f.noteAnswers(worst, cause, probe)
}

// probeRules are the rules of a probe that no caller waits for. A probe must write, because a store
// that is read-only or has a full disk still answers a peek.
var probeRules = engine.Compile("weir-probe", engine.AllOrNothing, []string{"probe"},
	[]engine.Limit{{Name: "limit", Max: 1, Window: time.Second.Microseconds(), By: []int{0}}})

// probeTimeout bounds a probe that no caller waits for, in an engine without a Timeout.
const probeTimeout = time.Second

// probe calls the store if the breaker permits it. Each probe has a key of its own, so that in a
// Cluster probes reach all nodes.
func (f *Engine) probe() {
	ctx := f.probing
	if f.timeout == 0 {
		timed, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		ctx = timed
	}
	defer func() {
		if p := recover(); p != nil { // no caller could recover it
			slog.Error("weir: a probe of the store has panicked",
				"panic", p, "stack", string(debug.Stack()))
		}
	}()
	calls := []engine.Call{{Rules: probeRules, Key: engine.K(rand.Text()), N: 1, Outage: Deny}}
	f.decideCalls(ctx, calls, []*engine.Call{&calls[0]})
}

// send calls the store within the timeout.
func (f *Engine) send(ctx context.Context, calls []engine.Call) {
	if f.timeout > 0 {
		timed, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		ctx = timed
	}
	f.engine.Do(ctx, calls)
}

// inspectTimeout bounds a call with Histories, unless the engine has no Timeout. The store reads
// whole histories, so it takes longer than a decision.
const inspectTimeout = time.Second

// inspect decides a call with Histories by the store, in every mode. While the store is out the
// call fails: only the store has the data. Its failure is not counted as one of the store, so it
// does not change the Status.
func (f *Engine) inspect(ctx context.Context, c *engine.Call) {
	if rejected := f.breaker.rejects(); rejected != nil {
		c.Fail(rejected)
		return
	}
	within := ctx
	if f.timeout > 0 {
		timed, cancel := context.WithTimeout(ctx, max(f.timeout, inspectTimeout))
		defer cancel()
		within = timed
	}
	alone := []engine.Call{*c}
	f.engine.Do(within, alone)
	*c = alone[0]
	f.classify(ctx, c) // completes the error
	if c.Err == nil {
		c.Err = errDecided
	}
}

// noteAnswers updates the breaker and the counters by the worst answer of the calls sent.
func (f *Engine) noteAnswers(worst answerClass, cause error, probe bool) {
	switch worst {
	case answered:
		f.breaker.succeeded(probe)
	case unreadable:
		f.failures.Add(1)
		f.faults.Log(cause)
		f.breaker.succeeded(probe)
	case failed:
		f.failures.Add(1)
		if errors.As(cause, new(timeoutError)) {
			f.timeouts.Add(1)
		}
		f.breaker.failed(cause)
	}
}

// decideWithout decides a call without the store. cause is the store's error.
func (f *Engine) decideWithout(c *engine.Call, cause error) {
	mode := f.modeOf(c)
	if !isDecision(c.Op) || mode != Allow && mode != Share {
		c.Fail(cause)
		return
	}
	c.Fail(nil)
	if mode == Allow {
		f.open.decideCall(c)
	} else {
		f.share.decideCall(c)
	}
	if c.Err == nil {
		f.degraded.Add(1)
	}
}

// isDecision reports whether a mode can decide calls of an operation. The other operations need the
// state of the store.
func isDecision(op engine.Op) bool {
	switch op {
	case engine.Attempt, engine.Peek, engine.Probe, engine.Record:
		return true
	}
	return false
}

// answerClass is the meaning of a call's answer for its store, the worst last.
type answerClass uint8

const (
	unrelated  answerClass = iota // bad input, an ended context, or the store was not called
	answered                      // the store decided, or for example it is full
	unreadable                    // the store is up and could not decide this key
	failed                        // the store could not decide
)

// classify separates outages from answers. It sets the error for the caller: a failure
// wraps ErrUnavailable or ErrOutcomeUnknown, and the end of ctx, the caller's own, wraps
// ErrOutcomeUnknown too if the call may be recorded.
func (f *Engine) classify(ctx context.Context, c *engine.Call) answerClass {
	err := c.Err
	switch {
	case err == nil && c.Result.Cached, errors.Is(err, engine.ErrInput):
		return unrelated
	case err == nil, isAboutContent(err):
		return answered // no other engine knows better
	}
	if ended := callerError(ctx); ended != nil {
		if mayChange(c) && !errors.Is(err, engine.ErrUnavailable) {
			ended = fmt.Errorf("%w: %w", engine.ErrOutcomeUnknown, ended)
		}
		c.Fail(ended)
		return unrelated
	}
	unavailable := errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrOutcomeUnknown)
	switch {
	case errors.Is(err, engine.ErrUnreadable):
		return unreadable
	case unavailable && isContextError(err), !unavailable && isTimeout(err):
		c.Err = timeoutError{f.timeout, err}
	}
	if !unavailable {
		outcome := engine.ErrOutcomeUnknown // an error without a statement is taken for the worse
		if !mayChange(c) {
			outcome = engine.ErrUnavailable
		}
		c.Err = fmt.Errorf("%w: %w", outcome, c.Err)
	}
	return failed
}

// isAboutContent reports whether an error of the store describes its content.
func isAboutContent(err error) bool {
	about := []error{engine.ErrFull, engine.ErrOverflow, engine.ErrSettled, engine.ErrExpired}
	return slices.ContainsFunc(about, func(content error) bool { return errors.Is(err, content) })
}

// mayChange reports whether the call may change the store.
func mayChange(c *engine.Call) bool {
	switch c.Op {
	case engine.Peek, engine.Count:
		return false
	case engine.Reset, engine.Settle, engine.Extend, engine.Block:
		return true
	}
	return c.N > 0
}

// timeoutError is the error of a call that ran out of time while its caller still
// waits. It hides the context errors in err, which callers would take for the end of
// their own context.
type timeoutError struct {
	timeout time.Duration // 0 = set by the engine
	err     error
}

func (e timeoutError) Error() string {
	if e.timeout == 0 {
		return fmt.Sprintf("no answer within the engine's own timeout: %v", e.err)
	}
	return fmt.Sprintf("no answer within the timeout of %v: %v", e.timeout, e.err)
}

// Is reports whether err matches the target, except for context errors.
func (e timeoutError) Is(target error) bool {
	isContexts := target == context.DeadlineExceeded || target == context.Canceled
	return !isContexts && errors.Is(e.err, target)
}

// As finds the target in err.
func (e timeoutError) As(target any) bool { return errors.As(e.err, target) }

// isContextError reports whether err would look like the end of a context.
func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// isTimeout reports whether err is a timeout or a cancellation.
func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.Canceled) || errors.As(err, &t) && t.Timeout()
}

// callerError returns the error of a caller's context that has ended, else nil. It
// compares the deadline with the clock too: an engine that reads the deadline itself may
// return before the context's timer fires.
func callerError(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ctx.Err() == nil && ok && time.Until(deadline) <= 0 {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// Status describes an engine and its store, for logs, metrics and health pages. While the
// store is down, one call at a time probes it, and all others are decided without it.
type Status struct {
	// Cause is the last failure while the store is down, because too many consecutive calls failed.
	// It is nil while the store is up.
	Cause error

	Since    time.Time // the last time that the store went down or came up; at first, that of New
	Failures int64     // calls that were sent and that the store did not decide
	Timeouts int64     // those failures that got no answer within the timeout
	Degraded int64     // decisions made without the store
}

// Status returns the current status. It does not call the store.
func (f *Engine) Status() Status {
	if f.isZero() {
		return Status{}
	}
	s := Status{
		Failures: f.failures.Load(),
		Timeouts: f.timeouts.Load(),
		Degraded: f.degraded.Load(),
	}
	s.Since, s.Cause = f.breaker.status()
	return s
}

// Option sets one property of an [Engine] that [New] makes. A nil Option changes nothing.
type Option func(*config)

type config struct {
	timeout      time.Duration // 0 = none
	threshold    int64         // 0 = none
	instances    int64
	onStoreState func(cause error)
	errorLog     *slog.Logger // nil = slog.Default()
}

// Timeout bounds each call of the store. After it, the mode decides. Choose it below the
// deadlines of callers: if the caller's own context ends first, the call returns its error and is
// no failure of the store. 0 or less sets no timeout; then a hanging store holds its callers until
// their contexts end. Default: 50ms.
//
// The timeout costs a timer per call. A memory engine never waits and is not timed, also inside
// [weir.Observe].
func Timeout(d time.Duration) Option {
	return func(c *config) { c.timeout = max(d, 0) }
}

// FailureThreshold sets the number of consecutive failures after which the store is
// taken to be down. With 0 or less the breaker never opens, and every call tries the store.
// Default: 5.
func FailureThreshold(n int) Option {
	return func(c *config) { c.threshold = int64(max(n, 0)) }
}

// OnStoreState calls changed when the store goes down, with the error of the last call, and
// when it is up again, with nil. Calls of it come one at a time and in order. They run on
// the goroutine of a caller, which waits for it, or on that of a probe.
//
// The log has lines of its own ([ErrorLog]): they begin with the first failure.
// Default, also for nil: no function.
func OnStoreState(changed func(cause error)) Option {
	return func(c *config) { c.onStoreState = changed }
}

// ErrorLog sets the logger for failures of the store. In every mode it gets
//
//   - a line when the store first fails to decide a call, and one when it decides again. In ten
//     seconds at most one line says that it fails, and the last line is its state;
//   - a line for calls of keys whose data the store cannot read (ErrUnreadable), at most one in
//     ten seconds.
//
// slog.New(slog.DiscardHandler) silences it. Default, also for nil: slog.Default().
func ErrorLog(log *slog.Logger) Option {
	return func(c *config) { c.errorLog = log }
}

// Instances sets the largest number of processes that use the store at any time. In mode Share
// each process grants a share of Max/n of every limit, rounded down. More processes than n exceed
// the bounds of Share in proportion. The other modes ignore it. Default, also for n below 1: 1.
func Instances(n int) Option {
	return func(c *config) { c.instances = int64(max(n, 1)) }
}
