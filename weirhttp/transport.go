package weirhttp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/keyby"
	"github.com/weirlimit/weir/internal/keyenc"
)

// Transport returns a RoundTripper that applies l to a client's requests before they are
// sent, and backs off when a server requests it:
//
//	client := &http.Client{Transport: weirhttp.Transport(limiter, weirhttp.By{"host": weirhttp.Host})}
//
// A request over the limit waits for room, within its context. If there can be no room
// before the context's deadline it fails at once with a *LimitedError; with FailFast it
// never waits. The body of a request that is not sent is closed and not read.
//
// Responses that request a wait are obeyed: 429 and 503 with Retry-After, and any status
// with a RateLimit field, or the older X-RateLimit fields, of which nothing remains. Until
// then, but at most for MaxBackoff, requests of the same key are treated as over the
// limit. The response itself is returned unchanged. Nothing is sent twice; a
// RoundTripper around this one may send a rejected request again, which then waits.
//
// Units of a limit of kind weir.Concurrency are held for its whole MaxHold, because Transport
// makes no reservations (R17).
//
// by names the function for each dimension of l's policy; Transport panics as
// [Middleware] does. A request without a value is not sent and fails with a *KeyError.
func Transport(l *weir.Limiter, by By, opts ...Option) http.RoundTripper {
	values := keyby.Functions("weirhttp: Transport", l, by)
	return &transport{limiter: l, values: values, config: newConfig(opts), backoffs: newBackoffs()}
}

type transport struct {
	limiter *weir.Limiter
	values  []ValueFunc // in the order of the policy's dimensions
	config
	backoffs *backoffs
}

// RoundTrip sends the request when there is room for it.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.skip != nil && t.skip(r) {
		return t.base.RoundTrip(r)
	}
	key, err := readKey(r, t.limiter.Compiled(), t.values)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	if err := t.admit(r.Context(), key, t.units(r)); err != nil {
		closeBody(r)
		return nil, err
	}
	res, err := t.base.RoundTrip(r)
	if err == nil {
		t.backOff(key, res)
	}
	return res, err
}

// CloseIdleConnections closes the idle connections of the base RoundTripper, for
// http.Client.CloseIdleConnections.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// admit returns nil when the request may be sent.
func (t *transport) admit(ctx context.Context, key weir.Key, n int64) error {
	for {
		if err := t.waitForServer(ctx, key); err != nil {
			return err
		}
		d, err := t.take(ctx, key, n)
		if err != nil || t.backoffs.left(key, time.Now()) <= 0 {
			return err
		}
		// A backoff of the key began while this request waited for room.
		t.refund(ctx, key, &d)
	}
}

// waitForServer waits until the backoff of the key is over.
func (t *transport) waitForServer(ctx context.Context, key weir.Key) error {
	for {
		left := t.backoffs.left(key, time.Now())
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
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take takes all n units from the limiter, and waits for them unless FailFast is set. Of
// a request that passes uncounted the decision is zero.
func (t *transport) take(ctx context.Context, key weir.Key, n int64) (d weir.Decision, err error) {
	if t.failFast {
		d, err = t.limiter.AllowN(ctx, key, n)
		if err == nil && (!d.Allowed || d.Granted < n) {
			t.refund(ctx, key, &d) // a request cannot be sent in part
			return d, &LimitedError{Decision: d, RetryAfter: d.RetryAfter}
		}
	} else {
		d, err = t.limiter.WaitN(ctx, key, n)
	}
	var wait *weir.WaitError
	switch {
	case err == nil:
		return d, nil
	case ctx.Err() != nil:
		return d, ctx.Err()
	case errors.As(err, &wait):
		return d, &LimitedError{Decision: wait.Decision, RetryAfter: wait.Decision.RetryAfter, Cause: wait.Cause}
	case t.passes(err):
		return weir.Decision{}, nil
	}
	return d, err
}

// refund returns the units of a request that is not sent. Units that a fallback granted
// are not in the store.
func (t *transport) refund(ctx context.Context, key weir.Key, d *weir.Decision) {
	if d.Granted > 0 && !d.Degraded {
		t.limiter.Refund(context.WithoutCancel(ctx), key, d.At, d.Granted)
	}
}

// backOff begins the backoff that the response requests, if it requests one.
func (t *transport) backOff(key weir.Key, res *http.Response) {
	now := time.Now()
	if wait := min(serverWait(res, now), t.maxBackoff); wait > 0 {
		t.backoffs.extend(key, now.Add(wait))
	}
}

// closeBody closes the body of a request that is not sent.
func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// LimitedError is the error of a request that Transport did not send. http.Client wraps
// it in a *url.Error; errors.As finds it.
type LimitedError struct {
	Decision   weir.Decision // of the limiter; zero if FromServer is set
	RetryAfter time.Duration // until the request can be sent, or weir.Never
	FromServer bool          // an earlier response requested the wait
	Cause      error         // why Transport did not wait: weir.ErrNever, weir.ErrDeadline; nil with FailFast
}

// Error names the reason and the wait.
func (e *LimitedError) Error() string {
	why := "limit " + answer.Shown(e.Decision.Limit) + " is reached"
	if e.FromServer {
		why = "the server requested a wait"
	}
	when := "it fits in " + answer.Wait(e.RetryAfter)
	if e.RetryAfter == weir.Never {
		when = "it never fits"
	}
	text := fmt.Sprintf("weirhttp: the request was not sent: %s; %s", why, when)
	if e.Timeout() {
		text += ", after the deadline"
	}
	return text
}

// Unwrap returns the cause.
func (e *LimitedError) Unwrap() error { return e.Cause }

// Timeout reports whether the wait would outlast the deadline, as net.Error does.
func (e *LimitedError) Timeout() bool { return errors.Is(e.Cause, weir.ErrDeadline) }

// serverWait returns how long a response requests to back off, from now on; 0 if it does
// not. Fields that cannot be read are ignored; of several waits the longest counts.
func serverWait(res *http.Response, now time.Time) time.Duration {
	longest := time.Duration(0)
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		longest = retryAfter(res.Header, now)
	}
	for _, item := range splitField(strings.Join(res.Header.Values("RateLimit"), ","), ',') {
		longest = max(longest, exhaustedFor(splitField(item, ';')[1:])) // behind a name, such as "name";r=0;t=30
	}
	return max(longest, legacyWait(res.Header, now))
}

// serverNow returns the server's clock, to compare instants that it names with. Without
// a Date field it is ours.
func serverNow(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// integer reads a whole number in digits. One out of range becomes the nearest int64.
func integer(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// retryAfter reads the field Retry-After: seconds or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, ok := integer(v); ok {
		return seconds(n)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(serverNow(h, now)))
}

// exhaustedFor returns the wait of the parameter t if r is 0, else 0.
func exhaustedFor(parameters []string) time.Duration {
	left, wait := int64(-1), int64(-1)
	for _, parameter := range parameters {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		n, ok := integer(value)
		switch {
		case !ok:
		case name == "r":
			left = n
		case name == "t":
			wait = n
		}
	}
	if left != 0 {
		return 0
	}
	return seconds(wait)
}

// legacyWait reads the fields X-RateLimit-Remaining and X-RateLimit-Reset, as of GitHub. A
// reset is in seconds: from now or, if it is large, since 1970.
func legacyWait(h http.Header, now time.Time) time.Duration {
	remaining, ok := integer(h.Get("X-RateLimit-Remaining"))
	if !ok || remaining > 0 {
		return 0
	}
	reset, ok := integer(h.Get("X-RateLimit-Reset"))
	if !ok {
		return 0
	}
	const year2000 = 946_684_800
	if reset > year2000 {
		return max(0, time.Unix(min(reset, math.MaxInt32*4), 0).Sub(serverNow(h, now)))
	}
	return seconds(reset)
}

// seconds converts a number of seconds that a server sent, within the range of Duration.
func seconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / int64(time.Second))
	return time.Duration(min(max(n, 0), most)) * time.Second
}

// splitField splits a structured field at separators outside quoted strings.
func splitField(s string, separator byte) (parts []string) {
	start, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == separator:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

// backoffs remembers for each key until when servers requested to receive nothing. When
// it is full, further keys are not remembered; the server repeats its request.
type backoffs struct {
	mu    sync.Mutex // protects the following
	until map[string]time.Time
}

// maxBackoffs bounds the number of remembered keys.
const maxBackoffs = 10_000

func newBackoffs() *backoffs { return &backoffs{until: map[string]time.Time{}} }

// encodeKey returns a key as one string.
func encodeKey(k *weir.Key) string {
	var b []byte
	for i := range k.Len() {
		b = keyenc.Append(b, k.Value(i))
	}
	return string(b)
}

// left returns the rest of the key's backoff at now; 0 or less if there is none.
func (b *backoffs) left(k weir.Key, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.until) == 0 {
		return 0
	}
	return b.until[encodeKey(&k)].Sub(now)
}

// extend lengthens the key's backoff to until; it never shortens one. Backoffs that are over
// are deleted when the map is full.
func (b *backoffs) extend(k weir.Key, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := encodeKey(&k)
	before, found := b.until[key]
	if !found && len(b.until) >= maxBackoffs {
		now := time.Now()
		maps.DeleteFunc(b.until, func(_ string, until time.Time) bool { return !until.After(now) })
	}
	if until.After(before) && (found || len(b.until) < maxBackoffs) {
		b.until[key] = until
	}
}
