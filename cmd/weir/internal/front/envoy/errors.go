package envoy

import (
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// inputError is the error of a malformed request (R14). It names the field.
type inputError string

func (e inputError) Error() string { return string(e) }

func badInput(format string, args ...any) error { return inputError(fmt.Sprintf(format, args...)) }

// toStatus converts an error to a gRPC status and counts it. Proxies treat every status
// as a failure of the service and pass or deny the request by their own configuration;
// they always pass an answer with the code UNKNOWN.
func (s *Service) toStatus(err error) error {
	var bad inputError
	if errors.As(err, &bad) || answer.IsBadInput(err) {
		s.Counts.BadInputs.Add(1)
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.Counts.Failed.Add(1)
	s.logOutage(err)
	if errors.Is(err, weir.ErrFull) {
		return status.Error(codes.Unavailable, "no decision: the store is full of keys that still count; give it more room")
	}
	return status.Error(codes.Unavailable, "no decision: the store did not answer; see the log of weir")
}

// logOutage logs a failure of the store, at most once a second.
func (s *Service) logOutage(err error) {
	s.outages.Line(slog.LevelError, "no decision could be made for a proxy", "error", answer.Logged(err))
}
