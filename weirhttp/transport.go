package weirhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/keyby"
	"github.com/weirlimit/weir/internal/option"
	"github.com/weirlimit/weir/internal/outagelog"
)

// NewTransport returns an http.RoundTripper that keeps to a limit of its own before it sends
// requests through base, and obeys the pauses of the server. It replaces a backoff
// loop around the calls of an API:
//
//	client := &http.Client{Transport: weirhttp.NewTransport(nil, limiter, nil)}
//
// base nil is http.DefaultTransport. limiter is a *weir.Limiter, or the rule of a policy file
// (enforce.Set.Rule). by names the function for each dimension of the policy, as for
// [Middleware]; it is nil for a policy without dimensions. Each request that is sent takes one
// unit, and so does each one that is sent again.
//
// A request makes one attempt, which grants its unit from an instant on, and sleeps until then
// (R18). So requests with the same key are sent in the order of their attempts, in all processes.
// During a pause, a block and under a concurrency limit they wait in the order in which they came,
// and one of them at a time makes an attempt. No request waits for longer than its context:
//
//   - If the wait would outlast the deadline, RoundTrip returns immediately an error that wraps
//     weir.ErrDeadline, a *weir.WaitError unless it is a pause of the server. Nothing is
//     charged and nothing is sent.
//   - If the context ends, RoundTrip returns a *weir.WaitError that wraps the context's error. The
//     unit is given back, within a second. If the context ends during an attempt, or that call
//     fails, the unit may have been charged.
//   - If the request can never be granted, it returns a *weir.WaitError that wraps weir.ErrNever.
//   - If the limiter cannot decide, it returns the limiter's error, unless [SendWhenDown] is set.
//   - A request without a value of the key is a *KeyError, and a fault of the program wraps
//     [ErrProgram].
//
// After status 429 or 503 with Retry-After, no request with the same key is sent until the pause is
// over. A request that has a unit for an instant during the pause is held back, too: its unit is
// given back, and it attempts another one after the pause. Requests that are in flight go on.
// Retry-After is seconds or a date. A date counts from the Date of the response, so the clocks may
// differ. A pause is at most 24 hours, also if Retry-After is longer. After it, requests are sent
// as the limit permits. The caller gets the response, unless [Retry] sends the request again. A
// response without Retry-After, or with another text in it, causes neither a pause nor a retry.
//
// A concurrency limit (weir.AtOnce) holds a unit until the Body of the response is closed, or
// until the request has failed. A request that waits for one is sent when another request of
// this transport ends. Holds of other processes are looked for once a second. The wait for an
// end cannot be foreseen, so it lasts until the deadline.
//
// A shadow sends without waiting for the limit, and obeys the server's pauses. A policy of a file
// with count: reported takes no units before a request, so its requests fail with ErrProgram. One
// with a block (weir.Limit.Blocking) blocks the program itself when a request has to wait.
//
// The returned RoundTripper is safe for concurrent use, and http.Client.CloseIdleConnections
// reaches base. NewTransport panics for the same mistakes as Middleware, and for a policy of
// mode weir.CountDenied, because each try of a waiting request would be charged.
//
// # Trade-off
//
// Pauses are those of this transport: make one and share it. The limit itself is shared by all
// processes whose limiters are on one engine. A request that the server rejects has taken its unit
// all the same. Requests that need not be answered now belong in a queue, which outlives the
// process.
func NewTransport(
	base http.RoundTripper, limiter weir.Decider, by By, opts ...TransportOption,
) http.RoundTripper {
	const caller = "weirhttp: NewTransport"
	keys := keyby.New(caller, limiter, by, ErrProgram)
	if rules := limiter.Compiled(); countsDenied(rules) {
		panic(fmt.Sprintf("%s: policy %q has the mode CountDenied, "+
			"so each try of a waiting request would be charged; use AllOrNothing",
			caller, rules.Name))
	}
	if base == nil {
		base = http.DefaultTransport
	}
	t := &transport{base: base, limiter: limiter, keys: keys, log: slog.Default()}
	option.Apply(t, opts)
	t.outages = &outagelog.Log{
		To: t.log.With("policy", keys.Policy()),
		Up: "weirhttp: requests of the transport are decided again",
		Down: "weirhttp: the transport got no decision; " +
			"such requests are sent uncounted unless the store is full",
	}
	return t
}

// countsDenied reports whether denied attempts are charged. A reload may have removed the rules,
// then they are nil.
func countsDenied(rules *engine.Compiled) bool {
	return rules != nil && rules.Mode == weir.CountDenied
}

// TransportOption sets one property of [NewTransport]. A nil TransportOption changes nothing.
type TransportOption func(*transport)

// Retry sends a request again after status 429 or 503 with Retry-After, when the pause is over
// and another unit is granted, up to times times. It joins at the end of the requests that wait.
//
//   - After 429 every request is sent again, because the server has not served it.
//   - After 503 the server may have served a part of it. So only idempotent requests are sent
//     again: GET, HEAD, OPTIONS, TRACE, PUT and DELETE, and those with an Idempotency-Key or
//     X-Idempotency-Key field.
//   - A request with a body is sent again only if it has GetBody, as those of http.NewRequest
//     from bytes and strings.
//   - A response with a body of more than 64 KiB is not retried. A shorter body is read before
//     the wait, so that a waiting request occupies no connection.
//
// The caller gets the last response: immediately, if the wait for another unit would outlast the
// deadline or no decision can be made.
//
// Retry panics if times is below 0. Default: 0.
func Retry(times int) TransportOption {
	if times < 0 {
		panic("weirhttp: Retry takes 0 or more")
	}
	return func(t *transport) { t.retries = times }
}

// SendWhenDown sends requests uncounted while the store cannot decide, as [AllowWhenDown] passes
// them. A full store (ErrFull) decides. The log has a line when requests begin to be sent
// uncounted, and one when they are decided again.
// Default: such requests fail with the limiter's error.
func SendWhenDown() TransportOption { return func(t *transport) { t.sendWhenDown = true } }

// TransportErrorLog sets the logger for requests that SendWhenDown sends uncounted, for holds that
// could not be ended (weir.KindConcurrency), and for units that could not be given back.
// slog.New(slog.DiscardHandler) silences it. Default, also for nil: slog.Default().
func TransportErrorLog(log *slog.Logger) TransportOption {
	return func(t *transport) {
		if log != nil {
			t.log = log
		}
	}
}

// maxPause bounds the pause of a server. A typing error of the server must not
// stop the program for years.
const maxPause = 24 * time.Hour

// maxDiscarded is the number of bytes that are read of a response before a retry, so that its
// connection can be used again.
const maxDiscarded = 64 << 10

type transport struct {
	base         http.RoundTripper
	limiter      weir.Decider
	keys         keyby.Keys[ValueFunc]
	retries      int
	sendWhenDown bool
	log          *slog.Logger
	outages      *outagelog.Log // whether decisions can be made, in log

	queue queue
}

// RoundTrip sends a request when its unit is granted.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	p := passage{transport: t, ctx: r.Context()}
	err := p.readKey(r)
	if err == nil {
		err = p.awaitUnit()
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close() // the contract of a RoundTripper
		}
		return nil, err
	}
	sent := r
	for tries := 0; ; tries++ {
		response, err := t.base.RoundTrip(sent)
		if err != nil {
			p.endHold()
			return response, err
		}
		pause, asked := pauseOf(response, time.Now())
		if asked {
			t.queue.pause(p.key, pause)
		}
		if !asked || tries == t.retries || !isRepeatable(r, response.StatusCode) {
			return p.holdUntilClosed(response), nil
		}
		if !detach(response) {
			return p.holdUntilClosed(response), nil
		}
		if sent = replay(r); sent == nil {
			return p.holdUntilClosed(response), nil
		}
		p.endHold()
		if err := p.awaitUnit(); err != nil {
			closeBody(sent.Body)
			if p.ctx.Err() == nil {
				return response, nil // more useful than an error: it has the Retry-After
			}
			return nil, err
		}
	}
}

// CloseIdleConnections closes those of base, for http.Client.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// replay returns a copy of a request with a body to be sent again; nil if that cannot be made.
func replay(r *http.Request) *http.Request {
	again := r.WithContext(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return again
	}
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	again.Body = body
	return again
}

// isRepeatable reports whether a request with a response of a status may be sent again. Of 503
// these are the requests that http.Transport sends again by itself, and PUT and DELETE.
func isRepeatable(r *http.Request, status int) bool {
	if status == http.StatusTooManyRequests {
		return true
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete:
		return true
	}
	_, hasKey := r.Header["Idempotency-Key"] // also without a value, which is not sent
	_, hasXKey := r.Header["X-Idempotency-Key"]
	return hasKey || hasXKey
}

// detach moves the body of a response into memory and closes it, so that its connection can be
// used again. It reports false for a body that is too long, which can be read as before.
func detach(r *http.Response) bool {
	if r.Body == nil {
		return true
	}
	read, err := io.ReadAll(io.LimitReader(r.Body, maxDiscarded+1))
	if err == nil && len(read) > maxDiscarded {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(read), r.Body), r.Body}
		return false
	}
	r.Body.Close()
	rest := io.Reader(http.NoBody)
	if err != nil {
		rest = brokenBody{err}
	}
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(read), rest))
	return true
}

// brokenBody is the end of a body that could not be read.
type brokenBody struct{ err error }

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }

func closeBody(body io.Closer) {
	if body != nil {
		body.Close()
	}
}

// pauseOf returns the pause that a response begins, 0 … maxPause. asked is false if it begins
// for none.
func pauseOf(r *http.Response, now time.Time) (pause time.Duration, asked bool) {
	if r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	text := strings.TrimSpace(r.Header.Get("Retry-After"))
	if text != "" && strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(maxPause/time.Second) {
			return maxPause, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		now = date
	}
	return min(max(0, until.Sub(now)), maxPause), true
}

// passage is the way of one request through a transport.
type passage struct {
	*transport
	ctx    context.Context
	values map[string]string
	key    string // made of the values

	granted grant             // the unit of the last attempt that was granted
	held    *weir.Reservation // the unit that a concurrency limit holds for the request
	shares  bool              // requests with other keys may wait for the end of the hold
}

// grant is a granted unit.
type grant struct {
	weir.Decision
	reservation *weir.Reservation // nil if the request is sent uncounted
}

// readKey reads the key of a request.
func (p *passage) readKey(r *http.Request) (err error) {
	call := func(value ValueFunc) (string, error) { return value(r) }
	if p.values, err = keyby.Read[*KeyError](&p.keys, call); err != nil {
		return err
	}
	p.key = p.keys.Text(p.values)
	return nil
}

// awaitUnit waits until a unit is granted, its use may begin, and the server permits requests with
// the key.
func (p *passage) awaitUnit() error {
	if err := p.ctx.Err(); err != nil {
		return &weir.WaitError{Cause: err, N: 1}
	}
	w := newWaiter(p.ctx)
	defer p.queue.leave(p.key, w)
	if p.queue.isFree(p.key) {
		denied, err := p.attempt(w)
		if err != nil {
			return err
		}
		if denied == nil {
			if done, err := p.awaitStart(w); done {
				return err
			}
		} else {
			p.queue.join(p.key, w, denied)
		}
	} else {
		p.queue.join(p.key, w, nil)
	}
	for {
		if err := p.ctx.Err(); err != nil {
			return &weir.WaitError{Decision: p.queue.decision(p.key), Cause: err, N: 1}
		}
		wait, err := p.queue.waitTime(p.key, w)
		switch {
		case err != nil:
			return err
		case wait != 0:
			w.sleep(p.ctx, wait)
			continue
		}
		denied, err := p.attempt(w)
		switch {
		case err != nil:
			return err
		case denied != nil:
			p.queue.deny(p.key, denied)
			continue
		}
		if done, err := p.awaitStart(w); done {
			return err
		}
	}
}

// awaitStart waits until the use of the granted unit may begin (R18). done is false if a pause of
// the server has moved the request back into its line. A unit that is not used is given back.
func (p *passage) awaitStart(w *waiter) (done bool, err error) {
	for p.granted.StartAfter > 0 {
		if err := p.ctx.Err(); err != nil {
			p.giveBack()
			return true, &weir.WaitError{Decision: p.granted.Decision, Cause: err, N: 1}
		}
		wait, isBooked := p.queue.untilStart(p.key, w)
		if !isBooked {
			p.giveBack()
			return false, nil
		}
		if wait <= 0 {
			break
		}
		w.sleep(p.ctx, wait)
	}
	return true, nil
}

// giveBack gives the granted unit back.
func (p *passage) giveBack() {
	if p.granted.reservation != nil {
		keyby.GiveBack(p.ctx, p.granted.reservation, p.log, "request", p.keys.Policy())
	}
}

// holdPoll is the time after which a request that waits for the end of a hold looks again, since
// other processes end theirs without notice.
const holdPoll = time.Second

// attempt attempts the unit, and gives it back if a pause lasts beyond its start. denied is nil if
// the request may be sent at its start, or after an error.
//
// A unit that was kept through the pause would be sent beside those that are granted after it, so
// together they could break the limit.
func (p *passage) attempt(w *waiter) (denied *denial, err error) {
	denied, err = p.decide()
	if err != nil || denied != nil {
		return denied, err
	}
	isHeld := !p.granted.reservation.HeldUntil().IsZero() // nothing is held after a settlement
	if !p.queue.book(p.key, w, p.granted.StartAfter) {
		p.giveBack()
		if isHeld {
			p.queue.release(p.key, p.shares)
		}
		return new(denial), nil // the pause has the time of the next attempt
	}
	if isHeld {
		p.held = p.granted.reservation
	}
	return nil, nil
}

// decide attempts the unit, and sets granted if it may be sent, perhaps uncounted. It is a
// reservation in any case, because only that is rejected by a policy that counts reported units.
func (p *passage) decide() (denied *denial, err error) {
	rules := p.limiter.Compiled()
	if countsDenied(rules) {
		return nil, p.keys.Fault("policy %q has the mode CountDenied since a reload, "+
			"so each try of a waiting request would be charged; use all or nothing", rules.Name)
	}
	r := weir.Request{N: 1}
	if !hasHold(rules) {
		r.MaxWait = keyby.TimeLeft(p.ctx, weir.MaxWindow)
	}
	releases := p.queue.countReleases()
	p.granted = grant{}
	reservation, o, err := p.keys.Attempt(p.ctx, p.values, r, true)
	if err != nil {
		return nil, p.failed(err)
	}
	p.outages.Set(shadowError(&Outcome{o}))
	d := o.Decision
	switch {
	case d.Allowed:
		p.shares = sharesHolds(o.Rules)
		p.granted = grant{d, reservation}
		return nil, nil
	case d.RetryAfter == weir.Never:
		return nil, &weir.WaitError{Decision: d, Cause: weir.ErrNever, N: 1}
	}
	// A fallback denies with an unknown wait, 0. The request must not spin.
	wait := max(d.RetryAfter, time.Millisecond)
	denied = &denial{decision: d, releases: releases, isFirm: true}
	if hold := deniedHold(&o); hold != nil {
		denied.isFirm, denied.isOwn = false, countsByAll(hold, o.Rules)
		wait = min(wait, holdPoll)
	}
	denied.next = time.Now().Add(wait)
	return denied, nil
}

// deniedHold returns the concurrency limit that denied for the longest time; nil if another limit
// did. Its wait is only the latest end of a hold.
func deniedHold(o *weir.Outcome) *engine.Limit {
	for i := range o.States {
		if s := &o.States[i]; s.Name == o.Decision.Limit && s.MaxHold > 0 {
			return &o.Rules.Limits[i]
		}
	}
	return nil
}

// countsByAll reports whether requests with other keys never share a limit.
func countsByAll(l *engine.Limit, rules *engine.Compiled) bool {
	return len(l.By) == len(rules.Dimensions)
}

// hasHold reports whether the rules have a concurrency limit, under which no unit is granted ahead
// (R18). A reload may have removed the rules, then they are nil.
func hasHold(rules *engine.Compiled) bool {
	isHold := func(l engine.Limit) bool { return answer.Holds(l.Kind) }
	return rules != nil && slices.ContainsFunc(rules.Limits, isHold)
}

// sharesHolds reports whether requests with different keys share a concurrency limit.
func sharesHolds(rules *engine.Compiled) bool {
	if rules == nil {
		return false
	}
	for i := range rules.Limits {
		l := &rules.Limits[i]
		if answer.Holds(l.Kind) && !countsByAll(l, rules) {
			return true
		}
	}
	return false
}

// failed returns the error of a request without a decision; nil if it is sent all the same.
func (p *passage) failed(err error) error {
	status, _ := answerTo(err)
	isDown := status == http.StatusServiceUnavailable
	if ended := p.ctx.Err(); isDown && ended != nil {
		cause := fmt.Errorf("%w; the unit may have been charged: %w", ended, err)
		return &weir.WaitError{Decision: p.queue.decision(p.key), Cause: cause, N: 1}
	}
	if isDown && p.sendWhenDown && !errors.Is(err, weir.ErrFull) {
		p.outages.Set(errors.New(answer.Logged(err)))
		return nil
	}
	return fmt.Errorf("weirhttp: no decision could be made, so the request was not sent: %w", err)
}

// endHold ends the hold of the request, if there is one, and lets another one try.
func (p *passage) endHold() {
	if p.held == nil {
		return
	}
	keyby.End(p.ctx, p.held, p.log, "request", p.keys.Policy())
	p.held = nil
	p.queue.release(p.key, p.shares)
}

// holdUntilClosed returns the response with a body that ends the hold.
func (p *passage) holdUntilClosed(r *http.Response) *http.Response {
	if p.held == nil {
		return r
	}
	if r.Body == nil {
		p.endHold()
		return r
	}
	body := &heldBody{ReadCloser: r.Body, end: sync.OnceFunc(p.endHold)}
	r.Body = body
	if w, ok := body.ReadCloser.(io.Writer); ok { // the connection switched protocols
		r.Body = struct {
			*heldBody
			io.Writer
		}{body, w}
	}
	return r
}

// heldBody is the body of a response, with the hold of its request.
type heldBody struct {
	io.ReadCloser
	end func()
}

// Close closes the body and ends the hold.
func (b *heldBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
