package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/weirhttp"
)

// fault is a request that gets no decision: what is wrong, and what to do.
type fault struct {
	status int
	detail string
}

func (f *fault) Error() string { return f.detail }

// badInput is a fault of the request itself (R14); nothing was charged.
func badInput(detail string) error { return &fault{http.StatusBadRequest, detail} }

// isBadInput reports whether the request is to blame for err, not the store.
func isBadInput(err error) bool {
	var f *fault
	return errors.As(err, &f) || answer.IsBadInput(err)
}

// refuse answers a request that got no decision with a problem document.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	strict(w.Header())
	var f *fault
	switch {
	case errors.As(err, &f):
		s.badInputs.Add(1)
		weirhttp.WriteError(w, f.status, f.detail)
	case isBadInput(err):
		s.badInputs.Add(1)
		weirhttp.WriteError(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, errBusy):
		w.Header()["Retry-After"] = aSecond
		weirhttp.WriteError(w, http.StatusServiceUnavailable,
			"no decision: as many requests are under way as may be; nothing was charged, try again in a second, or start more of weir")
	case errors.Is(err, weir.ErrFull):
		s.complain(err)
		weirhttp.WriteError(w, http.StatusServiceUnavailable,
			"no decision: the store holds as many keys as it may, and all of them still count; try again later, or give the store more room")
	default:
		s.complain(err)
		weirhttp.WriteError(w, http.StatusServiceUnavailable,
			"no decision: the store could not be asked; try again later, or look into the log of weir")
	}
}

var aSecond = []string{"1"}

// complain logs that no decision could be made, at most once a second: a store
// that is down must not fill the disk as well.
func (s *Server) complain(err error) {
	s.unsaid.Add(1)
	now := time.Now().Unix()
	last := s.complained.Load()
	if now == last || !s.complained.CompareAndSwap(last, now) {
		return
	}
	s.log.Error("no decision could be made", "error", answer.Logged(err), "times", s.unsaid.Swap(0))
}
