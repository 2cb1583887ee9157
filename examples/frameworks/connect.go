package frameworks

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirhttp"
)

// rpcErrors writes errors in the caller's protocol: Connect, gRPC or gRPC-Web.
var rpcErrors = connect.NewErrorWriter()

// DenyRPC is the OnDenied of a Connect handler: RESOURCE_EXHAUSTED with the wait as RetryInfo.
func DenyRPC(w http.ResponseWriter, r *http.Request, o *weirhttp.Outcome) {
	err := connect.NewError(connect.CodeResourceExhausted, errors.New(o.Why()))
	if wait := o.Decision.RetryAfter; wait != weir.Never {
		info := &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}
		if detail, failed := connect.NewErrorDetail(info); failed == nil {
			err.AddDetail(detail)
		}
	}
	rpcErrors.Write(w, r, err)
}

// FailRPC is the OnError of a Connect handler.
func FailRPC(w http.ResponseWriter, r *http.Request, err error) {
	code, text := connect.CodeUnavailable, "no decision could be made; try again later"
	if key, ok := errors.AsType[*weirhttp.KeyError](err); ok {
		code, text = connect.CodeInvalidArgument, key.Problem
	} else if errors.Is(err, weir.ErrInput) {
		code, text = connect.CodeInvalidArgument, err.Error()
	} else {
		slog.ErrorContext(r.Context(), "a call was rejected without a decision", "error", err)
	}
	rpcErrors.Write(w, r, connect.NewError(code, errors.New(text)))
}

// ConnectRoutes serves a health service with Connect. Its calls need an API key.
func ConnectRoutes(s *Shop) http.Handler {
	byKey := weirhttp.By{"key": weirhttp.Header("X-Api-Key")}
	perKey := weirhttp.Middleware(s.Search, byKey,
		weirhttp.OnDenied(DenyRPC), weirhttp.OnError(FailRPC))
	perAddress := s.perAddress(weirhttp.OnDenied(DenyRPC), weirhttp.OnError(FailRPC))
	check := func(context.Context, *connect.Request[health.HealthCheckRequest],
	) (*connect.Response[health.HealthCheckResponse], error) {
		s.Serve()
		serving := health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVING}
		return connect.NewResponse(&serving), nil
	}

	handler := connect.NewUnaryHandler(health.Health_Check_FullMethodName, check,
		connect.WithIdempotency(connect.IdempotencyNoSideEffects)) // permits GET

	mux := http.NewServeMux() // a procedure is a path, and a service is a path that ends in a slash
	mux.Handle(health.Health_Check_FullMethodName, perKey(handler))
	return perAddress(mux)
}
