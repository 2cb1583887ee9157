package weirhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// Transport returns a RoundTripper that holds a client's requests to l before they
// are sent, and to what servers say of their own limits:
//
//	client := &http.Client{Transport: weirhttp.Transport(limiter, weirhttp.KeyBy())}
//
// A request over the limit waits for its turn, within its context; one whose turn
// cannot come before the context's deadline fails at once with a *LimitedError, as
// all do with FailFast. Nothing of its body is read then.
//
// A response that says how long to stay away is believed: 429 and 503 with
// Retry-After, and any with a RateLimit field or its older forms that says that
// nothing remains. Until then, but no longer than MaxBackoff, requests of the same key
// are held back as if they were over the limit. The response itself is returned as
// it is; nothing is sent twice unless Retries asks for it.
//
// key says whom a request is counted for, and whom a response is about: all
// requests together with KeyBy(), each host with KeyBy(Host). It is required, and a
// request that names nobody is not sent (*KeyError). Of the options, Cost, FailOpen,
// FailFast, MaxBackoff, Retries and Through have an effect. Transport panics if l or key
// is missing.
func Transport(l *weir.Limiter, key KeyFunc, opts ...Option) http.RoundTripper {
	if l == nil || l.Plan() == nil {
		panic("weirhttp: Transport needs a limiter made with weir.New")
	}
	if key == nil {
		panic("weirhttp: Transport needs a key function, such as weirhttp.KeyBy(weirhttp.Host)")
	}
	return &transport{limiter: l, key: key, config: settle(opts), holds: newHolds()}
}

// Host takes the host that a request goes to, in lower case, with its port where one
// is written.
func Host(r *http.Request) (string, error) {
	if r.URL == nil || r.URL.Host == "" {
		return "", &KeyError{Problem: "the request has no host that it goes to"}
	}
	return strings.ToLower(r.URL.Host), nil
}

type transport struct {
	limiter *weir.Limiter
	key     KeyFunc
	config
	holds *holds
}

// RoundTrip sends the request when its turn has come.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key, err := t.key(r)
	if err != nil {
		closeBody(r)
		return nil, asKeyError(err)
	}
	n := t.units(r)
	for left := t.retries; ; left-- {
		if err := t.wait(r.Context(), key, n); err != nil {
			closeBody(r)
			return nil, err
		}
		res, err := t.through.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		held := t.learn(key, res)
		if left <= 0 || !held || !t.refused(r, res) {
			return res, nil
		}
		again := t.again(r, key, n)
		if again == nil {
			return res, nil
		}
		discard(res.Body)
		r = again
	}
}

// CloseIdleConnections closes those of what it sends by, for
// http.Client.CloseIdleConnections.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.through.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// learn holds the key back if the response asks for it, and reports whether it does.
func (t *transport) learn(key weir.Key, res *http.Response) bool {
	now := time.Now()
	asked := min(told(res, now), t.maxHold)
	return asked > 0 && t.holds.extend(key, now.Add(asked))
}

// refused reports whether the server has surely not served the request, or it does
// no harm to serve it twice.
func (t *transport) refused(r *http.Request, res *http.Response) bool {
	return res.StatusCode == http.StatusTooManyRequests ||
		res.StatusCode == http.StatusServiceUnavailable && isIdempotent(r.Method)
}

// units is what a request asks for.
func (t *transport) units(r *http.Request) int64 {
	if t.cost == nil {
		return 1
	}
	return t.cost(r)
}

// wait returns nil when the request may be sent.
func (t *transport) wait(ctx context.Context, key weir.Key, n int64) error {
	for {
		if err := t.waitHeld(ctx, key); err != nil {
			return err
		}
		d, err := t.ask(ctx, key, n)
		if err != nil || t.holds.left(key, time.Now()) <= 0 {
			return err
		}
		// While this one waited, another heard to stay away.
		t.giveBack(ctx, key, &d)
	}
}

// giveBack takes back what was granted for nothing. Of what a fallback granted the
// store knows nothing.
func (t *transport) giveBack(ctx context.Context, key weir.Key, d *weir.Decision) {
	if d.Granted > 0 && !d.Degraded {
		t.limiter.Refund(context.WithoutCancel(ctx), key, d.At, d.Granted)
	}
}

// waitHeld waits while servers want to be left alone.
func (t *transport) waitHeld(ctx context.Context, key weir.Key) error {
	for {
		left := t.holds.left(key, time.Now())
		if left <= 0 {
			return nil
		}
		deadline, bounded := ctx.Deadline()
		switch {
		case t.failFast:
			return &LimitedError{RetryAfter: left, FromServer: true}
		case bounded && time.Until(deadline) < left:
			return &LimitedError{RetryAfter: left, FromServer: true, Cause: weir.ErrDeadline}
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// ask asks the limiter for the request's units, and waits for them.
func (t *transport) ask(ctx context.Context, key weir.Key, n int64) (d weir.Decision, err error) {
	if t.failFast {
		d, err = t.limiter.AllowN(ctx, key, n)
		if err == nil && (!d.Allowed || d.Granted < n) {
			t.giveBack(ctx, key, &d) // a part is of no use
			return d, &LimitedError{Decision: d, RetryAfter: d.RetryAfter}
		}
	} else {
		d, err = t.limiter.WaitN(ctx, key, n)
	}
	var given *weir.WaitError
	switch {
	case err == nil:
		return d, nil
	case ctx.Err() != nil:
		return d, ctx.Err()
	case errors.As(err, &given):
		return d, &LimitedError{Decision: given.Decision, RetryAfter: given.Decision.RetryAfter, Cause: given.Cause}
	case t.failOpen && !badInput(err):
		return weir.Decision{}, nil
	}
	return d, err
}

// again returns the request to send once more, or nil if it cannot be sent again or
// not in time: then the response is of more use than an error.
func (t *transport) again(r *http.Request, key weir.Key, n int64) *http.Request {
	if t.failFast || !t.inTime(r.Context(), key, n) {
		return nil
	}
	again := r.Clone(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return again
	}
	if r.GetBody == nil {
		return nil
	}
	var err error
	if again.Body, err = r.GetBody(); err != nil {
		return nil
	}
	return again
}

// inTime reports whether the turn of another n units can come before the deadline: as
// far as anybody knows, since others may be faster.
func (t *transport) inTime(ctx context.Context, key weir.Key, n int64) bool {
	d, err := t.limiter.Peek(ctx, key, n)
	if err == nil && d.RetryAfter == weir.Never {
		return false
	}
	deadline, bounded := ctx.Deadline()
	return !bounded || max(t.holds.left(key, time.Now()), d.RetryAfter) <= time.Until(deadline)
}

// isIdempotent reports whether a request that may have been served in part can be
// sent again (RFC 9110, 9.2.2).
func isIdempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// closeBody closes the body of a request that is not sent.
func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// discard reads a response that nobody wants, so that its connection can be used
// again; but not much of it.
func discard(body io.ReadCloser) {
	io.CopyN(io.Discard, body, 64<<10)
	body.Close()
}
