package weirgrpc

import (
	"context"
	"errors"
	"io"
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
)

func as(tenant string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "tenant", tenant)
}

// TestUnary: calls pass until the limit, for each key on its own; then they end
// with all that a client needs to know.
func TestUnary(t *testing.T) {
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

// TestViolationsByCost: a limit with a cost of its own is named by what the call
// takes of it, not by what it asks for.
func TestViolationsByCost(t *testing.T) {
	requests := weir.Limit{Name: "requests", Max: 1, Window: time.Hour, By: []string{"tenant"}, Cost: 1}
	tokens := weir.Limit{Name: "tokens", Max: 100, Window: time.Hour, By: []string{"tenant"}}
	dear := weir.Limit{Name: "dear", Max: 15, Window: time.Hour, By: []string{"tenant"}, Cost: 10}
	named := func(err error) (ids string) {
		for _, d := range status.Convert(err).Details() {
			if q, ok := d.(*errdetails.QuotaFailure); ok {
				for _, v := range q.Violations {
					ids += v.QuotaId + " "
				}
			}
		}
		return ids
	}
	conn := limited(t, newLimiter(t, nil, requests, tokens, dear), byTenant, Cost(byLength))
	if _, err := once(as("acme"), conn, "12345"); err != nil {
		t.Fatal(err)
	}
	if _, err := once(as("acme"), conn, "1"); named(err) != "requests dear " {
		t.Errorf("%v names %q, want requests and dear, of which 1 and 10 would be taken", err, named(err))
	}
	conn = limited(t, newLimiter(t, nil, weir.Limit{Name: "requests", Max: 3, Window: time.Hour, By: []string{"tenant"}, Cost: 1}, tokens), byTenant, Cost(byLength))
	if _, err := once(as("acme"), conn, strings.Repeat("x", 101)); named(err) != "tokens " {
		t.Errorf("%v names %q, want tokens alone: 1 of requests fits", err, named(err))
	}
}

// TestNever: what no waiting helps carries no RetryInfo and is not to be retried.
func TestNever(t *testing.T) {
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
	if _, err := once(as("acme"), conn, "two"); err != nil {
		t.Errorf("3 of 3: %v", err)
	}
}

// TestStream: a stream is counted when it begins; with EachMessage so are its
// messages, and the one too many ends it.
func TestStream(t *testing.T) {
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

	conn = limited(t, newLimiter(t, nil, perTenant(5)), byTenant, Cost(byLength), EachMessage())
	third, err := many(t, as("acme"), conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want codes.Code
	}{{"abc", codes.OK}, {"de", codes.OK}, {"f", codes.ResourceExhausted}} {
		if got, err := through(third, c.text); status.Code(err) != c.want || err == nil && got != c.text+" for acme" {
			t.Errorf("%s: %q, %v; want %v", c.text, got, err, c.want)
		}
	}
	if _, err := through(third, "g"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// TestBadInputIsInvalidArgument, also with FailOpen, and charges nothing.
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
		{"empty", []Option{FailOpen()}, as(""), "the metadata tenant is missing"},
		{"two", nil, twice, "sent more than once"},
		{"bad cost", []Option{Cost(func(context.Context, *Call) int64 { return -1 }), FailOpen()}, as("a"), "bad number of units"},
	} {
		_, err := once(c.ctx, limited(t, l, byTenant, c.opts...), "hi")
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || !strings.Contains(s.Message(), c.want) {
			t.Errorf("%s: %v, want INVALID_ARGUMENT and %q", c.name, err, c.want)
		}
	}
	if d, err := l.Peek(context.Background(), weir.K("a"), 1); err != nil || d.Remaining != 1 {
		t.Errorf("bad input was charged: %+v, %v", d, err)
	}
}

// TestFailedValueIsInternal, also with FailOpen, and does not send the cause.
func TestFailedValueIsInternal(t *testing.T) {
	failing := By{"tenant": func(context.Context, *Call) (string, error) { return "", errors.New("password 1234") }}
	var seen error
	notice := OnError(func(_ context.Context, err error) error {
		seen = err
		return statusOf(err).Err()
	})
	_, err := once(as("a"), limited(t, newLimiter(t, nil, perTenant(1)), failing, FailOpen(), notice), "hi")
	if s := status.Convert(err); s.Code() != codes.Internal || strings.Contains(s.Message(), "1234") {
		t.Errorf("%v, want INTERNAL without the cause", err)
	}
	if !errors.Is(seen, ErrValue) || !strings.Contains(seen.Error(), `for "tenant": password 1234`) {
		t.Errorf("OnError got %v, want ErrValue with the dimension and the cause", seen)
	}
}

// TestOutage: without a decision a call ends with UNAVAILABLE, unless it may pass.
func TestOutage(t *testing.T) {
	l := newLimiter(t, []weir.Option{weir.WithEngine(broken{})}, perTenant(1))
	_, err := once(as("a"), limited(t, l, byTenant), "hi")
	if status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want UNAVAILABLE", err)
	}
	if got, err := once(as("a"), limited(t, l, byTenant, FailOpen()), "hi"); err != nil || got != "hi uncounted" {
		t.Errorf("with FailOpen: %q, %v", got, err)
	}
	mine := OnError(func(_ context.Context, err error) error { return status.Error(codes.Internal, err.Error()) })
	if _, err := once(as("a"), limited(t, l, byTenant, mine, OnError(nil)), "hi"); status.Code(err) != codes.Internal {
		t.Errorf("with OnError: %v", err)
	}
}

func TestOnDenied(t *testing.T) {
	pass := OnDenied(func(_ context.Context, o *Outcome) error {
		if o.Decision.Allowed || o.N != 1 || len(o.States) != 1 {
			t.Errorf("outcome %+v", o)
		}
		return nil
	})
	conn := limited(t, newLimiter(t, nil, perTenant(0)), byTenant, pass, OnDenied(nil))
	if _, err := once(as("a"), conn, "hi"); err != nil {
		t.Errorf("let pass: %v", err)
	}
}

func TestPeerIPIsTheKey(t *testing.T) {
	conn := limited(t, newLimiter(t, nil, weir.Limit{Name: "hour", Max: 1, Window: time.Hour, By: []string{"ip"}}), By{"ip": PeerIP})
	if got, err := once(context.Background(), conn, "hi"); err != nil || got != "hi for 127.0.0.1" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := PeerIP(context.Background(), nil); err == nil {
		t.Error("a call from nowhere has an address")
	}
}

// TestMistakesOfTheProgramPanic when the interceptor is built, not with a call.
func TestMistakesOfTheProgramPanic(t *testing.T) {
	l := newLimiter(t, nil, perTenant(1))
	for want, f := range map[string]func(){
		"weirgrpc: Unary needs a limiter made with weir.New":                                        func() { Unary(nil, byTenant) },
		"weirgrpc: Stream needs a limiter made with weir.New":                                       func() { Stream(new(weir.Limiter), byTenant) },
		`weirgrpc: UnaryClient: policy "calls" needs a value for "tenant"; it counts by ["tenant"]`: func() { UnaryClient(l, nil) },
		`weirgrpc: Stream: policy "calls" has no dimension "method"; it counts by ["tenant"]`:       func() { Stream(l, By{"tenant": Metadata("tenant"), "method": Method}) },
		`weirgrpc: StreamClient: the function for "tenant" is nil`:                                  func() { StreamClient(l, By{"tenant": nil}) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

// TestOddKeys: the status can be sent with any bytes in the key.
func TestOddKeys(t *testing.T) {
	odd := By{"tenant": func(context.Context, *Call) (string, error) {
		return "\xff\x00" + strings.Repeat("ö", 500), nil
	}}
	_, err := once(context.Background(), limited(t, newLimiter(t, nil, perTenant(0)), odd), "hi")
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || len(s.Details()) == 0 {
		t.Errorf("%v with %d details", err, len(s.Details()))
	}
}
