package weirhttp

import (
	"io"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/keyby"
)

// CountOnly sets a function that reports, by the status of its response, whether a request
// counts. One that does not count gives its units back, exactly as they were granted. So only
// failed logins count with
//
//	weirhttp.CountOnly(func(status int) bool { return status == http.StatusUnauthorized })
//
// The units count while the handler runs: concurrent requests cannot pass the limit together.
// So Remaining, in the header fields too, has them taken.
//
//   - A handler that writes no status has 200. The informational statuses 1xx do not decide.
//   - A handler that panics before it writes a status has 500, also if an outer handler recovers.
//   - A connection that was hijacked has 101, unless a status was written before.
//   - A client that hangs up changes nothing: the handler's status decides.
//   - If the handler runs for longer than five minutes, or than the longest hold of a policy with a
//     concurrency limit, its reservation has expired: the units count until they leave by time.
//   - A minimum interval (weir.Limit.Apart) has begun all the same: giving back does not move it.
//   - If the function of CountOnly panics, the request counts, and its hold ends.
//   - Denied requests have no response of the handler. Under weir.CountDenied they count.
//
// Units that could not be given back, because the store is down or the reservation has expired,
// count until they leave by time; that is one line in [ErrorLog]. A policy of a file with count:
// reported charges nothing that could be given back, so its requests fail with [ErrProgram].
//
// Default, also for nil: every request counts.
func CountOnly(counts func(status int) bool) Option {
	return func(c *config) { c.countOnly = counts }
}

// handle serves a granted request, and settles its reservation, also if the handler panics.
func (m *middleware) handle(
	w http.ResponseWriter, r *http.Request, next http.Handler, held *weir.Reservation,
) {
	if m.countOnly == nil || held == nil {
		defer keyby.End(r.Context(), held, m.errorLog, "request", m.keys.Policy())
		next.ServeHTTP(w, r)
		return
	}
	recorder := &statusRecorder{ResponseWriter: w}
	status := http.StatusInternalServerError // unless the handler returns
	counts := true                           // unless countOnly returns
	defer func() {
		if counts {
			keyby.End(r.Context(), held, m.errorLog, "request", m.keys.Policy())
		} else {
			m.giveBack(r.Context(), held)
		}
	}()
	defer func() {
		if recorder.status != 0 {
			status = recorder.status
		}
		counts = m.countOnly(status)
	}()
	next.ServeHTTP(recorder.writer(), r)
	status = http.StatusOK
}

// statusRecorder is a ResponseWriter that records the status of the response. Handlers get
// writer, which has the optional interfaces of the recorded one: Flusher, Hijacker and Pusher.
// ReaderFrom and StringWriter are there always, because io has the same result without them.
// http.ResponseController reaches everything else through Unwrap.
//
// A generated wrapper (github.com/felixge/httpsnoop, 16,000 lines) keeps every combination of
// eight interfaces. These methods suffice, and the root module keeps its one dependency.
type statusRecorder struct {
	http.ResponseWriter
	status int // 0 = none yet
}

// record records a final status, if it is the first one.
func (w *statusRecorder) record(status int) {
	isFinal := status >= 200 || status == http.StatusSwitchingProtocols
	if w.status == 0 && isFinal {
		w.status = status
	}
}

// Unwrap returns the recorded ResponseWriter, for http.ResponseController.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes and records a status.
func (w *statusRecorder) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	w.record(status)
}

// Write writes a part of the body, with status 200 if none was written.
func (w *statusRecorder) Write(b []byte) (int, error) {
	w.record(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// WriteString writes a part of the body, without a copy if the recorded writer needs none.
func (w *statusRecorder) WriteString(s string) (int, error) {
	w.record(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom copies src to the body, by sendfile if the recorded writer does.
func (w *statusRecorder) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, src)
	if n > 0 {
		w.record(http.StatusOK)
	}
	return n, err
}

// FlushError is Flush for http.ResponseController, which looks for it first.
func (w *statusRecorder) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if err == nil {
		w.record(http.StatusOK)
	}
	return err
}

// CloseNotify returns the channel of the recorded writer, or one that never gets a value. Old
// frameworks call it without a check (http.CloseNotifier, which is deprecated).
func (w *statusRecorder) CloseNotify() <-chan bool {
	if notifier, ok := find[interface{ CloseNotify() <-chan bool }](w.ResponseWriter); ok {
		return notifier.CloseNotify()
	}
	return make(chan bool)
}
