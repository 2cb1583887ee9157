package weirgrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

func as(tenant string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "tenant", tenant)
}

// TestUnaryCallsEndAtTheLimit: calls pass until the limit of their key. Further calls end
// with RESOURCE_EXHAUSTED and details for the client.
func TestUnaryCallsEndAtTheLimit(t *testing.T) {
	gap := weir.Limit{Name: "apart", Max: 100, Window: time.Hour, MinInterval: time.Hour, By: []string{"tenant", "method"}}
	l := newLimiter(t, nil, perTenant(2), gap)
	conn := limited(t, l, By{"tenant": Metadata("tenant"), "method": Method})
	for _, tenant := range []string{"acme", "other"} {
		if got, err := once(as(tenant), conn, "hi"); err != nil || got != "hi for "+tenant {
			t.Errorf("%s: %q, %v", tenant, got, err)
		}
	}
	if _, err := l.AllowN(context.Background(), weir.K("acme", "another method"), 1); err != nil {
		t.Fatal(err)
	}
	var trailer metadata.MD
	got, err := once(as("acme"), conn, "hi", grpc.Trailer(&trailer))
	s := status.Convert(err)
	if got != "" || s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "for tenant=acme") {
		t.Fatalf("the third: %q, %v", got, err)
	}
	var retry *errdetails.RetryInfo
	var quota *errdetails.QuotaFailure
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	if wait := retry.GetRetryDelay().AsDuration(); wait <= 59*time.Minute || wait > time.Hour {
		t.Errorf("RetryInfo: %v, want nearly an hour", wait)
	}
	ms, _ := strconv.Atoi(strings.Join(trailer.Get("grpc-retry-pushback-ms"), ""))
	if wait := retry.GetRetryDelay().AsDuration(); int64(ms) != (wait + time.Millisecond - 1).Milliseconds() {
		t.Errorf("pushback %q, want %v in milliseconds", trailer, wait)
	}
	if len(quota.GetViolations()) != 2 {
		t.Fatalf("QuotaFailure: %v, want both limits", quota)
	}
	v, w := quota.Violations[0], quota.Violations[1]
	if v.Subject != "tenant:acme" || v.QuotaMetric != "calls" || v.QuotaId != "hour" || v.QuotaValue != 2 ||
		v.QuotaDimensions["tenant"] != "acme" || v.Description != "at most 2 in 1h, and 2 are used" {
		t.Errorf("the first violation: %v", v)
	}
	if w.Subject != "tenant:acme,method:"+echoOnce || !strings.Contains(w.Description, "grants must be 1h apart") {
		t.Errorf("the second violation: %v", w)
	}
}

// TestViolations: a violation describes a bucket, what is in use at once, and a period in
// their own words. That of a limit with a cost has the cost of the call, not its units.
func TestViolations(t *testing.T) {
	hour := func(name string, most, cost int64) weir.Limit {
		return weir.Limit{Name: name, Max: most, Window: time.Hour, Cost: cost}
	}
	requests, tokens, dear := hour("requests", 1, 1), hour("tokens", 100, 0), hour("dear", 15, 10)
	for _, c := range []struct {
		limits    []weir.Limit
		before, n int64
		want      []string
	}{
		{[]weir.Limit{{Name: "l", Kind: weir.KindBucket, Max: 1, Window: time.Hour, Burst: 2}}, 2, 3,
			[]string{"l 2: a bucket of 2, one unit flows in every 1h, and 2 are missing"}},
		{[]weir.Limit{{Name: "l", Kind: weir.KindConcurrency, Max: 2, MaxHold: time.Hour}}, 2, 3, []string{"l 2: at most 2 at once, and 2 are in use"}},
		{[]weir.Limit{{Name: "l", Kind: weir.KindFixed, Max: 2, Period: weir.Month, Zone: "Europe/Berlin"}}, 2, 3,
			[]string{"l 2: at most 2 in a month, and 2 are used this month in Europe/Berlin"}},
		{[]weir.Limit{requests, tokens, dear}, 5, 1, []string{"requests 1: at most 1 in 1h, and 1 are used", "dear 15: at most 15 in 1h, and 10 are used"}},
		{[]weir.Limit{hour("requests", 3, 1), tokens}, 0, 101, []string{"tokens 100: at most 100 in 1h, and 0 are used"}},
	} {
		l := newLimiter(t, nil, c.limits...)
		o := &Outcome{weir.Outcome{Rules: l.Compiled(), N: c.n, States: make([]weir.LimitState, len(c.limits))}}
		if d, err := l.AllowN(t.Context(), o.Key, c.before); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		var err error
		o.Decision, err = l.Decide(t.Context(), o.Key, weir.Request{N: c.n, States: o.States})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range o.quotaFailure().Violations {
			got = append(got, fmt.Sprintf("%s %d: %s", v.QuotaId, v.QuotaValue, v.Description))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

// TestNeverHasNoRetryInfo: a call that can never be granted has no RetryInfo and must not
// be retried.
func TestNeverHasNoRetryInfo(t *testing.T) {
	conn := limited(t, newLimiter(t, nil, perTenant(3)), byTenant, Cost(byLength))
	var trailer metadata.MD
	_, err := once(as("acme"), conn, "four", grpc.Trailer(&trailer))
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "never allows more than 3") || strings.Join(trailer.Get(pushbackTrailer), "") != "-1" {
		t.Errorf("%v, trailer %v", err, trailer)
	}
	for _, d := range s.Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			t.Errorf("a RetryInfo of %v", r)
		}
	}
	if _, err := once(as("acme"), conn, "two"); err != nil { // 3 of 3
		t.Fatal(err)
	}
}

// TestStreamsAreCharged: a stream is charged when it begins, and its messages are not.
func TestStreamsAreCharged(t *testing.T) {
	conn := limited(t, newLimiter(t, nil, perTenant(1)), byTenant)
	first, err := many(t, as("acme"), conn)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if got, err := through(first, "hi"); err != nil || got != "hi for acme" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	second, err := many(t, as("acme"), conn)
	if err == nil {
		_, err = through(second, "hi")
	}
	if status.Code(err) != codes.ResourceExhausted || strings.Join(second.Trailer().Get(pushbackTrailer), "") == "" {
		t.Errorf("the second stream: %v, trailer %v", err, second.Trailer())
	}
}

// TestBadInputIsInvalidArgument, also with AllowWhenDown, and charges nothing.
func TestBadInputIsInvalidArgument(t *testing.T) {
	twice := metadata.AppendToOutgoingContext(as("a"), "tenant", "b")
	l := newLimiter(t, nil, perTenant(1))
	for _, c := range []struct {
		name string
		opts []Option
		ctx  context.Context
		want string
	}{
		{"no metadata", nil, context.Background(), "the metadata tenant is missing"},
		{"empty", []Option{AllowWhenDown()}, as(""), "the metadata tenant is missing"},
		{"two", nil, twice, "sent more than once"},
		{"bad cost", []Option{Cost(func(context.Context, *Call) int64 { return -1 }), AllowWhenDown()}, as("a"), "bad number of units"},
	} {
		_, err := once(c.ctx, limited(t, l, byTenant, c.opts...), "hi")
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || !strings.Contains(s.Message(), c.want) {
			t.Errorf("%s: %v, want INVALID_ARGUMENT and %q", c.name, err, c.want)
		}
	}
	nothing := By{"tenant": func(context.Context, *Call) (string, error) { return "", nil }}
	_, err := once(as("a"), limited(t, l, nothing, AllowWhenDown()), "hi")
	if s := status.Convert(err); s.Code() != codes.InvalidArgument || !strings.Contains(s.Message(), `the value of "tenant" is empty`) {
		t.Errorf("no value and no error: %v, want INVALID_ARGUMENT with the dimension", err)
	}
	if d, err := l.Peek(context.Background(), weir.K("a"), 1); err != nil || d.Remaining != 1 {
		t.Errorf("bad input was charged: %+v, %v", d, err)
	}
}

// TestFailedValueIsInternal, also with AllowWhenDown. The cause is not sent; it is logged once
// for a call, or OnError gets it.
func TestFailedValueIsInternal(t *testing.T) {
	failing := By{"tenant": func(context.Context, *Call) (string, error) { return "", errors.New("password 1234") }}
	var log bytes.Buffer
	var seen error
	own := OnError(func(_ context.Context, err error) error { seen = err; return status.Error(codes.Aborted, "mine") })
	l := newLimiter(t, nil, perTenant(1))
	_, err := once(as("a"), limited(t, l, failing, AllowWhenDown(), ErrorLog(slog.New(slog.NewTextHandler(&log, nil))), ErrorLog(nil)), "hi")
	if s := status.Convert(err); s.Code() != codes.Internal || strings.Contains(s.Message(), "1234") || strings.Count(log.String(), "password 1234") != 1 {
		t.Errorf("%v, log %q; want INTERNAL without the cause, and one line with it", err, log.String())
	}
	_, err = once(as("a"), limited(t, l, failing, AllowWhenDown(), OnError(nil), own), "hi")
	if status.Code(err) != codes.Aborted || !errors.Is(seen, ErrProgram) || !strings.Contains(seen.Error(), `for "tenant" failed: password 1234`) {
		t.Errorf("%v, and OnError got %v; want its own error, and ErrProgram with the dimension and the cause", err, seen)
	}
}

// TestSkip: a skipped call needs no key and is not counted.
func TestSkip(t *testing.T) {
	skip := Skip(func(ctx context.Context, c *Call) bool {
		return len(metadata.ValueFromIncomingContext(ctx, "tenant")) == 0
	})
	conn := limited(t, newLimiter(t, nil, perTenant(1)), byTenant, skip)
	for range 3 {
		if got, err := once(context.Background(), conn, "hi"); err != nil || got != "hi uncounted" {
			t.Errorf("skipped: %q, %v", got, err)
		}
		stream, err := many(t, context.Background(), conn)
		if err == nil {
			_, err = through(stream, "hi")
		}
		if err != nil {
			t.Errorf("skipped stream: %v", err)
		}
	}
	if _, err := once(as("a"), conn, "hi"); err != nil {
		t.Errorf("counted: %v", err)
	}
	if _, err := once(as("a"), conn, "hi"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("over the limit: %v", err)
	}
}

func TestOnDenied(t *testing.T) {
	pass := OnDenied(func(_ context.Context, o *Outcome) error {
		if o.Decision.Allowed || o.N != 1 || len(o.States) != 1 {
			t.Errorf("outcome %+v", o)
		}
		return nil
	})
	conn := limited(t, newLimiter(t, nil, perTenant(0)), byTenant, OnDenied(nil), pass)
	if _, err := once(as("a"), conn, "hi"); err != nil {
		t.Fatal(err)
	}
}

func TestPeerIPIsTheKey(t *testing.T) {
	conn := limited(t, newLimiter(t, nil, weir.PerHour(1, "ip")), By{"ip": PeerIP})
	if got, err := once(context.Background(), conn, "hi"); err != nil || got != "hi for 127.0.0.1" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestMistakesOfTheProgramPanic: a wrong option panics when the interceptor is built, not
// during a call.
func TestMistakesOfTheProgramPanic(t *testing.T) {
	l := newLimiter(t, nil, perTenant(1))
	for want, f := range map[string]func(){
		"weirgrpc: Unary got a nil limiter; check the error of weir.New, or pass the rule of an enforce.Set": func() { Unary(nil, byTenant) },
		"weirgrpc: Stream: the zero or nil Limiter decides nothing; make one with weir.New":                  func() { Stream(new(weir.Limiter), byTenant) },
		`weirgrpc: Unary: policy "calls" needs a value for "tenant"; it counts by ["tenant"]`:                func() { Unary(l, nil) },
		`weirgrpc: Stream: policy "calls" has no dimension "method"; it counts by ["tenant"]`:                func() { Stream(l, By{"tenant": Metadata("tenant"), "method": Method}) },
		`weirgrpc: Stream: the function for "tenant" is nil`:                                                 func() { Stream(l, By{"tenant": nil}) },
	} {
		if got := assert.Recovered(f); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}
}

// TestStatusIsValidForAnyKey: the status can be sent with any bytes in the key.
func TestStatusIsValidForAnyKey(t *testing.T) {
	odd := By{"tenant": func(context.Context, *Call) (string, error) {
		return "\xff\x00" + strings.Repeat("ö", 500), nil
	}}
	_, err := once(context.Background(), limited(t, newLimiter(t, nil, perTenant(0)), odd), "hi")
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || len(s.Details()) == 0 {
		t.Errorf("%v with %d details", err, len(s.Details()))
	}
}

// TestErrorsHaveACode: only the text of bad input and of a context reaches the client. With
// AllowWhenDown only bad input is an error.
func TestErrorsHaveACode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{engine.Input("units", "secret trouble"), codes.InvalidArgument},
		{engine.Input("id", "secret trouble"), codes.Internal}, // no call chooses it
		{&weir.PolicyError{Problem: "secret trouble"}, codes.Internal},
		{weir.ErrOverflow, codes.InvalidArgument},
		{weir.ErrFull, codes.Unavailable},
		{weir.ErrUnavailable, codes.Unavailable},
		{weir.ErrOutcomeUnknown, codes.Unavailable},
		{fmt.Errorf("%w: secret trouble: %w", weir.ErrUnreadable, weir.ErrUnavailable), codes.Unavailable},
		{context.Canceled, codes.Canceled},
		{fmt.Errorf("store: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
		{errors.New("secret trouble"), codes.Unavailable},
	} {
		store := weirtest.NewFaulty(weir.NewMemory())
		store.Break(func(context.Context, func()) error { return c.err })
		l := newLimiter(t, []weir.Option{weir.WithEngine(store)}, perTenant(1))
		_, err := once(as("a"), limited(t, l, byTenant), "hi")
		if s := status.Convert(err); s.Code() != c.want || (s.Message() == c.err.Error()) != (c.want != codes.Unavailable && c.want != codes.Internal) {
			t.Errorf("%v: %v, want %v", c.err, err, c.want)
		}
		if known := !errors.Is(c.err, weir.ErrOutcomeUnknown); c.want == codes.Unavailable && strings.Contains(err.Error(), "not counted") != known {
			t.Errorf("%v: %v; the text must contain \"not counted\": %t", c.err, err, known)
		}
		got, err := once(as("a"), limited(t, l, byTenant, AllowWhenDown()), "hi")
		if rejected := c.want == codes.InvalidArgument || c.want == codes.Internal || c.err == weir.ErrFull; (err != nil) != rejected || !rejected && got != "hi uncounted" {
			t.Errorf("%v, AllowWhenDown: %q, %v; rejected must be %v", c.err, got, err, rejected)
		}
	}
}

// TestOutagesAreLogged: a line when decisions fail and one when they work again. With OnError the
// program has the errors.
func TestOutagesAreLogged(t *testing.T) {
	down, up := "a call could not be decided; such calls are rejected with UNAVAILABLE", "calls are decided again"
	ownError := OnError(func(_ context.Context, err error) error { return err })
	for name, c := range map[string]struct {
		opts []Option
		err  error
		want []string
	}{
		"default":       {nil, weir.ErrUnavailable, []string{down, up}},
		"timeout":       {nil, context.DeadlineExceeded, []string{down, up}},
		"bad input":     {nil, weir.ErrInput, nil},
		"OnError":       {[]Option{ownError}, weir.ErrUnavailable, nil},
		"AllowWhenDown": {[]Option{AllowWhenDown(), ownError}, weir.ErrUnavailable, []string{"a call could not be decided; such calls pass uncounted unless the store is full", up}},
	} {
		var out strings.Builder
		store := weirtest.NewFaulty(weir.NewMemory())
		l := newLimiter(t, []weir.Option{weir.WithEngine(store)}, perTenant(100))
		opts := append([]Option{ErrorLog(slog.New(slog.NewTextHandler(&out, nil)))}, c.opts...)
		intercept := Unary(l, byTenant, opts...)
		call := func() {
			ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("tenant", "acme"))
			intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/a/b"}, func(context.Context, any) (any, error) { return nil, nil })
		}
		for range 2 {
			call()
		}
		store.Break(func(context.Context, func()) error { return c.err })
		for range 2 {
			call()
		}
		store.Restore()
		for range 2 {
			call()
		}
		got := out.String()
		if strings.Count(got, "\n") != len(c.want) {
			t.Errorf("%s: got\n%swant %d lines", name, got, len(c.want))
		}
		for _, line := range c.want {
			if !strings.Contains(got, line) || !strings.Contains(got, "policy=calls") {
				t.Errorf("%s: got\n%swant %q and the policy", name, got, line)
			}
		}
	}
}
