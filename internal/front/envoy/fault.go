package envoy

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// inputError is a request that is not one (R14). It names the field.
type inputError string

func (e inputError) Error() string { return string(e) }

func badInput(format string, args ...any) error { return inputError(fmt.Sprintf(format, args...)) }

// refuse turns an error into the protocol's. A proxy takes any of them for a failure
// of the service, and lets pass or not as it was told; the code UNKNOWN of an answer
// would be let pass in any case.
func (s *Service) refuse(err error) error {
	var bad inputError
	switch {
	case errors.As(err, &bad) || answer.IsBadInput(err):
		s.counts.badInputs.Add(1)
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, weir.ErrFull):
		s.counts.failed.Add(1)
		s.complain(err)
		return status.Error(codes.Unavailable, "no decision: the store holds as many keys as it may, and all of them still count; give it more room")
	}
	s.counts.failed.Add(1)
	s.complain(err)
	return status.Error(codes.Unavailable, "no decision: the store could not be asked; look into the log of weir")
}

// complain logs that something went wrong with the store, at most once a second.
func (s *Service) complain(err error) {
	s.counts.unsaid.Add(1)
	now := time.Now().Unix()
	last := s.counts.complained.Load()
	if now == last || !s.counts.complained.CompareAndSwap(last, now) {
		return
	}
	s.options.Log.Error("no decision could be made for a proxy", "error", answer.Logged(err), "times", s.counts.unsaid.Swap(0))
}
