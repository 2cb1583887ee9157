package envoy

import (
	"fmt"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/internal/answer"
)

// badInput returns the error of a malformed request (R14). It names the field.
func badInput(format string, args ...any) error { return calls.BadInput(fmt.Sprintf(format, args...)) }

// errorCodes are the statuses of errors, by the first that an error wraps. Bad input has the
// error's own text.
var errorCodes = []answer.ForError[codes.Code]{
	answer.For(weir.ErrInput, codes.InvalidArgument, ""),
	answer.For(weir.ErrOverflow, codes.InvalidArgument, ""),
	answer.For(weir.ErrFull, codes.Unavailable, "no decision: the store is full of keys that still count; give it more room"),
	answer.For(nil, codes.Unavailable, "no decision: the store did not answer; see the log of weir"),
}

// toStatus converts an error to a gRPC status and counts it. Proxies treat every status
// as a failure of the service and pass or deny the request by their own configuration;
// they always pass an answer with the code UNKNOWN.
func (s *Service) toStatus(err error) error {
	code, text := answer.ToError(err, errorCodes)
	if code == codes.InvalidArgument {
		s.Counts.BadInputs.Add(1)
	} else {
		s.Counts.Failed.Add(1)
		s.logOutage(err)
	}
	return status.Error(code, text)
}

// logOutage logs a failure of the store, at most once a second.
func (s *Service) logOutage(err error) {
	s.outages.Line(slog.LevelError, "no decision could be made for a proxy", "error", answer.Logged(err))
}
