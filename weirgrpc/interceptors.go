// Package weirgrpc applies a weir.Limiter, or a rule of a policy file, to gRPC servers.
//
//	by := weirgrpc.By{"tenant": weirgrpc.Metadata("tenant")}
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(weirgrpc.Unary(limiter, by)),
//		grpc.ChainStreamInterceptor(weirgrpc.Stream(limiter, by)))
//
// A call over the limit ends with RESOURCE_EXHAUSTED, a sentence with the next step, and
// the standard details: RetryInfo with the exact wait, and QuotaFailure with every limit
// that denied the call. The trailer grpc-retry-pushback-ms makes clients with a retry
// policy retry at the right time, or not at all if waiting does not help.
//
// # Trade-off
//
// The caller provides the key of each call by functions; nothing is guessed. A call
// without a key ends with INVALID_ARGUMENT and is never counted together with others. If no
// decision can be made, it ends with UNAVAILABLE, unless [AllowWhenDown] is set. A stream is
// counted when it begins, not for its messages.
//
// A client that waits before it sends a call uses Limiter.Wait in an interceptor of its own: one
// call of the store, one sleep, and the unit given back if the call's context ends
// (ExampleUnary_client).
package weirgrpc

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/keyby"
	"github.com/weirlimit/weir/internal/option"
	"github.com/weirlimit/weir/internal/outagelog"
)

// pushbackTrailer is the wait for clients with a retry policy: milliseconds, rounded up, or −1 for
// a call that must not be retried.
const pushbackTrailer = "grpc-retry-pushback-ms"

// Unary returns an interceptor that passes a call on when d grants it. d is a *weir.Limiter, or
// the rule of a policy file (enforce.Set.Rule) with its plans, overrides and shadow. by names the
// function for each dimension of the policy, and perhaps for its plan-by. Unary panics if d is
// nil or has no policy, or if the names in by are not those of its values: both are mistakes in
// the program.
//
// A shadow passes every call, and its outcome has the decision that it does not enforce (Would).
//
// A concurrency limit counts a call until its handler returns or panics. If the
// handler runs for longer than the limit's MaxHold, the hold has ended by time; that is one
// line in ErrorLog, and the MaxHold should be longer.
func Unary(d weir.Decider, by By, opts ...Option) grpc.UnaryServerInterceptor {
	limit := newLimit("Unary", d, by, opts)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
		trailer := func(md metadata.MD) { grpc.SetTrailer(ctx, md) }
		err = limit.serve(ctx, &Call{Method: info.FullMethod, Request: req}, trailer, func(ctx context.Context) (err error) {
			reply, err = handler(ctx, req)
			return err
		})
		return reply, err
	}
}

// Stream is Unary for streams, which are counted when they begin.
func Stream(d weir.Decider, by By, opts ...Option) grpc.StreamServerInterceptor {
	limit := newLimit("Stream", d, by, opts)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return limit.serve(stream.Context(), &Call{Method: info.FullMethod}, stream.SetTrailer, func(ctx context.Context) error {
			return handler(srv, &limitedStream{stream, ctx})
		})
	}
}

// serve decides a call, and passes it to its handler with the outcome in the context. trailer
// sends that of a denial.
func (l *limit) serve(ctx context.Context, c *Call, trailer func(metadata.MD), handle func(context.Context) error) error {
	if l.skip != nil && l.skip(ctx, c) {
		return handle(ctx)
	}
	units := l.cost(ctx, c)
	if units == 0 {
		return handle(ctx)
	}
	o, held, err := l.decide(ctx, c, units)
	if err != nil {
		if err = l.failed(ctx, err); err != nil {
			return err
		}
		return handle(ctx) // uncounted
	}
	l.outages.Set(shadowError(o))
	if !o.Decision.Allowed {
		if err := l.onDenied(ctx, o); err != nil {
			trailer(metadata.Pairs(pushbackTrailer, strconv.FormatInt(answer.Millis(o.Decision.RetryAfter), 10)))
			return err
		}
	}
	defer keyby.End(ctx, held, l.errorLog, "call", l.keys.Policy())
	return handle(context.WithValue(ctx, contextKey{}, o))
}

// decide attempts the units of a call. held is nil if the policy has no concurrency limit, or
// nothing was granted.
func (l *limit) decide(ctx context.Context, c *Call, units int64) (o *Outcome, held *weir.Reservation, err error) {
	values, err := keyby.Read[*KeyError](&l.keys, func(value ValueFunc) (string, error) { return value(ctx, c) })
	if err != nil {
		return nil, nil, err
	}
	// A client that hangs up must not go free.
	held, decided, err := l.keys.Attempt(context.WithoutCancel(ctx), values, weir.Request{N: units}, false)
	return &Outcome{decided}, held, err
}

// shadowError returns the reason why a shadow could not be decided, for the log.
func shadowError(o *Outcome) error {
	if o.Err == nil {
		return nil
	}
	return errors.New(answer.Logged(o.Err))
}

// limitedStream is a stream with the outcome in its context.
type limitedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context of the stream, with the outcome.
func (s *limitedStream) Context() context.Context { return s.ctx }

// limit is the common part of the interceptors.
type limit struct {
	keys keyby.Keys[ValueFunc]
	config
}

// newLimit panics as keyby.New does.
func newLimit(caller string, d weir.Decider, by By, opts []Option) *limit {
	keys := keyby.New("weirgrpc: "+caller, d, by, ErrProgram)
	return &limit{keys: keys, config: newConfig(keys.Policy(), opts)}
}

// failed returns the final error of a call without a decision; nil if the call passes.
func (l *limit) failed(ctx context.Context, err error) error {
	if l.allowWhenDown && isOutage(ctx, toStatus(err)) && !errors.Is(err, weir.ErrFull) { // a full store is not down
		l.outages.Set(errors.New(answer.Logged(err)))
		return nil
	}
	return l.onError(ctx, err)
}

// isOutage reports whether a call has a status because the store could not decide, and not
// because the call itself is wrong or has ended.
func isOutage(ctx context.Context, s *status.Status) bool {
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return ctx.Err() == nil
	}
	return false
}

// errorCodes are the codes of errors, by the first that an error wraps. Bad input (R14) and
// ends of a context keep the error's own text. That of another error is not sent: it may hold
// secrets.
var errorCodes = []answer.ForError[codes.Code]{
	answer.For(ErrProgram, codes.Internal, "the server has a fault, so the call could not be counted; its log has the cause"),
	answer.For(weir.ErrInput, codes.InvalidArgument, ""),
	answer.For(weir.ErrOverflow, codes.InvalidArgument, ""),
	answer.For(context.DeadlineExceeded, codes.DeadlineExceeded, ""),
	answer.For(context.Canceled, codes.Canceled, ""),
	answer.For(weir.ErrOutcomeUnknown, codes.Unavailable, "the store did not answer, so the call was denied; it may have been counted; try again later"),
	answer.For(nil, codes.Unavailable, "no decision could be made, so the call was denied and not counted; try again later"), // the store's errors
}

// toStatus returns the status of an error.
func toStatus(err error) *status.Status {
	if key, ok := errors.AsType[*KeyError](err); ok {
		return status.New(codes.InvalidArgument, key.Problem)
	}
	return status.New(answer.ToError(err, errorCodes))
}

// Option sets one property of [Unary] or [Stream]. A nil Option changes nothing.
type Option func(*config)

type config struct {
	cost          func(context.Context, *Call) int64
	skip          func(context.Context, *Call) bool
	allowWhenDown bool
	onDenied      func(context.Context, *Outcome) error
	onError       func(context.Context, error) error
	errorLog      *slog.Logger
	outages       *outagelog.Log // whether decisions can be made, in errorLog
}

// newConfig applies the options to the defaults.
func newConfig(policy string, opts []Option) config {
	c := config{errorLog: slog.Default()}
	option.Apply(&c, opts)
	c.outages = &outagelog.Log{To: c.errorLog.With("policy", policy), Up: "weirgrpc: calls are decided again",
		Down: "weirgrpc: a call could not be decided; such calls are rejected with UNAVAILABLE"}
	if c.allowWhenDown {
		c.outages.Down = "weirgrpc: a call could not be decided; such calls pass uncounted unless the store is full"
	}
	if c.cost == nil {
		c.cost = func(context.Context, *Call) int64 { return 1 }
	}
	if c.onDenied == nil {
		c.onDenied = func(_ context.Context, o *Outcome) error { return o.Status().Err() }
	}
	if c.onError == nil {
		log, outages := c.errorLog, c.outages
		c.onError = func(ctx context.Context, err error) error {
			s := toStatus(err)
			switch {
			case s.Code() == codes.Internal:
				log.Error("a call ended with INTERNAL: a fault of the program", "policy", policy, "error", err)
			case isOutage(ctx, s):
				outages.Set(errors.New(answer.Logged(err)))
			}
			return s.Err()
		}
	}
	return c
}

// Cost sets the units of a call, 0 … weir.MaxUnits. A call of 0 units passes without a decision,
// as by [Skip]. Other numbers end with INVALID_ARGUMENT. Default, also for nil: 1.
func Cost(units func(context.Context, *Call) int64) Option {
	return func(c *config) { c.cost = units }
}

// Skip sets a function that reports whether a call passes without a decision, such as a
// health check. It is not counted and has no outcome. Default, also for nil: no call is
// skipped.
func Skip(skip func(context.Context, *Call) bool) Option {
	return func(c *config) { c.skip = skip }
}

// AllowWhenDown lets calls pass uncounted, without OnError, while the store cannot decide. Bad
// input is still rejected: leaving out the metadata must not bypass the limit. ErrorLog has a
// line when calls begin to pass, and one when they are decided again. Default: such calls are
// rejected.
func AllowWhenDown() Option {
	return func(c *config) { c.allowWhenDown = true }
}

// OnDenied sets the error of denied calls. An error of nil lets the call pass. Default, also
// for nil: Outcome.Status.
func OnDenied(f func(context.Context, *Outcome) error) Option {
	return func(c *config) { c.onDenied = f }
}

// OnError sets the error of calls without a decision. An error of nil lets the call pass.
// Default, also for nil:
//   - INVALID_ARGUMENT for a call without a usable key (*KeyError) or with bad input, such as
//     an invalid number of units (weir.ErrInput);
//   - INTERNAL and a line in ErrorLog for a fault of the program (ErrProgram);
//   - the status of a context that has ended;
//   - UNAVAILABLE for all other errors. ErrorLog has a line when this begins, and one when calls
//     are decided again. In ten seconds at most one line says that it begins.
func OnError(f func(context.Context, error) error) Option {
	return func(c *config) { c.onError = f }
}

// ErrorLog sets the logger for faults of the program (ErrProgram) and for outages, unless OnError
// is set; for calls that AllowWhenDown passes; and for holds that could not be ended
// (weir.KindConcurrency). An outage has a line at its begin and at its end, all else one per call.
// slog.New(slog.DiscardHandler) silences it. Default, also for nil: slog.Default().
func ErrorLog(log *slog.Logger) Option {
	return func(c *config) {
		if log != nil {
			c.errorLog = log
		}
	}
}
