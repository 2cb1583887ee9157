package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/problemdoc"
)

// Stats is the answer to GET /v1/stats.
type Stats struct {
	At       string        `json:"at" jsonschema:"the instant of the answer, RFC 3339"`
	StepMS   int64         `json:"step_ms" jsonschema:"the length of a step of the recent counts"`
	Server   Readiness     `json:"server" jsonschema:"as in the answer to /readyz"`
	Health   Health        `json:"health"`
	Changes  []string      `json:"changes,omitempty" jsonschema:"what the last reload that succeeded changed, a phrase each"`
	Policies []policyStats `json:"policies" jsonschema:"the policies with calls, in the order of the file"`
}

type policyStats struct {
	Policy       string              `json:"policy"`
	Total        calls.Counts        `json:"total" jsonschema:"since the start of the server"`
	Recent       *calls.Counts       `json:"recent,omitempty" jsonschema:"of the last 15 minutes; missing for further policies than 256"`
	Steps        *steps              `json:"steps,omitempty" jsonschema:"the recent counts by steps"`
	Reservations *calls.Reservations `json:"reservations,omitempty" jsonschema:"since the start of the server"`
}

// steps are the recent counts by steps, the oldest first. The last step is still running. A member
// without calls is missing.
type steps struct {
	Allowed   []int64 `json:"allowed,omitempty"`
	Denied    []int64 `json:"denied,omitempty"`
	WouldDeny []int64 `json:"would_deny,omitempty"`
	Waiting   []int64 `json:"waiting,omitempty"`
	Errors    []int64 `json:"errors,omitempty"`
}

// Health is the state of the process and its store.
type Health struct {
	Version   string      `json:"version"`
	Started   string      `json:"started" jsonschema:"RFC 3339"`
	InFlight  int64       `json:"in_flight" jsonschema:"requests that wait for a decision now"`
	Decisions int64       `json:"decisions" jsonschema:"in the last minute"`
	P50MS     float64     `json:"p50_ms" jsonschema:"half of them took at most so many milliseconds in the engine and the store, rounded up to a bucket; -1 = above 2,500"`
	P99MS     float64     `json:"p99_ms" jsonschema:"the same of 99 in 100"`
	WriteMS   float64     `json:"write_ms,omitempty" jsonschema:"the time of the last write of this instance's heartbeat to a shared store; missing if it failed"`
	Memory    *MemoryUse  `json:"memory,omitempty" jsonschema:"of the histories in this process"`
	Disk      *DiskUse    `json:"disk,omitempty"`
	Calls     *StoreCalls `json:"store_calls,omitempty" jsonschema:"of a store outside of this process"`
}

// MemoryUse is the memory of the histories.
type MemoryUse struct {
	Keys     int64 `json:"keys" jsonschema:"histories, counted once for each limit"`
	Bytes    int64 `json:"bytes"`
	MaxKeys  int64 `json:"max_keys,omitempty"`
	MaxBytes int64 `json:"max_bytes,omitempty" jsonschema:"by --max-memory"`
	Rejected int64 `json:"rejected" jsonschema:"attempts and records that found no memory"`
}

// DiskUse is the log of a store on disk.
type DiskUse struct {
	Bytes    int64 `json:"bytes"`
	Failures int64 `json:"failures" jsonschema:"writes, syncs and snapshots that failed"`
}

// StoreCalls counts the calls of a store that can be down.
type StoreCalls struct {
	Since    string `json:"since" jsonschema:"the last time that the store went down or came up, RFC 3339"`
	Failures int64  `json:"failures" jsonschema:"calls that it did not decide"`
	Timeouts int64  `json:"timeouts" jsonschema:"of these, calls without an answer in time"`
	Degraded int64  `json:"degraded" jsonschema:"decisions that were made without it"`
}

// serveStats answers with the counts and the health.
func (a *API) serveStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, marshal(a.stats(time.Now())))
}

// stats returns the answer at an instant. It takes a sample, so that the recent counts fit the
// totals.
func (a *API) stats(now time.Time) *Stats {
	all := &Stats{
		At:       Stamp(now),
		StepMS:   calls.StepTime.Milliseconds(),
		Server:   a.Status(),
		Health:   a.Health(),
		Changes:  a.Changes(),
		Policies: []policyStats{},
	}
	rules := a.Rules()
	a.Sampler.Sample(rules, now)
	for _, rule := range rules {
		if of := a.statsOf(rule); of.Total != (calls.Counts{}) || of.Reservations != nil {
			all.Policies = append(all.Policies, of)
		}
	}
	return all
}

// Rules returns the rules in force, those of inline policies last.
func (a *API) Rules() []*enforce.Rule {
	return slices.Concat(a.Policies().Rules, a.Inline.Rules())
}

// statsOf returns the counts of a policy.
func (a *API) statsOf(rule *enforce.Rule) policyStats {
	seen := calls.Of(rule)
	of := policyStats{Policy: rule.Name, Total: seen.Totals()}
	if r := seen.Reservations(); r != (calls.Reservations{}) {
		of.Reservations = &r
	}
	recent := a.Sampler.Recent(seen)
	if recent == nil {
		return of
	}
	of.Recent = &recent.Sum
	of.Steps = &steps{
		Allowed:   series(recent, func(c *calls.Counts) int64 { return c.Allowed }),
		Denied:    series(recent, func(c *calls.Counts) int64 { return c.Denied }),
		WouldDeny: series(recent, func(c *calls.Counts) int64 { return c.WouldDeny }),
		Waiting:   series(recent, func(c *calls.Counts) int64 { return c.Waiting }),
		Errors:    series(recent, func(c *calls.Counts) int64 { return c.Errors }),
	}
	return of
}

// series returns one count for each step, or nil if all are 0.
func series(recent *calls.Recent, of func(*calls.Counts) int64) []int64 {
	if of(&recent.Sum) == 0 {
		return nil
	}
	var all []int64
	for i := range recent.Steps {
		all = append(all, of(&recent.Steps[i]))
	}
	return all
}

// These are bounds of server-sent events. A stream has the answer to GET /v1/stats every
// eventPeriod. At most maxStreams are open. A client that does not read for maxUnread is
// disconnected.
const (
	eventPeriod = 2 * time.Second
	maxStreams  = 32
	maxUnread   = 10 * time.Second
)

// events are the streams of an API.
type events struct {
	open     atomic.Int64  // streams
	stopping chan struct{} // closed when the server drains

	mu   sync.Mutex // protects the following
	at   time.Time  // the instant of last
	last []byte     // the newest event, for all streams
}

// Drain makes the server not ready. From then on every answer closes its connection, and streams
// end. Drain is called once.
func (a *API) Drain() {
	a.Draining.Store(true)
	close(a.events.stopping)
}

// wantsEvents reports whether a client asks for server-sent events.
func wantsEvents(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return r.Method == http.MethodGet && strings.Contains(accept, "text/event-stream")
}

var eventType = []string{"text/event-stream"}

// stream answers GET /v1/stats with server-sent events until the server drains. It ends earlier if
// the client disconnects, does not read, or is no longer authorized.
func (x *exchange) stream() {
	a := x.API
	defer a.events.open.Add(-1)
	if a.events.open.Add(1) > maxStreams {
		x.w.Header()["Retry-After"] = oneSecond
		problemdoc.Write(x.w, http.StatusServiceUnavailable,
			"too many streams of events are open; ask for /v1/stats without Accept: text/event-stream")
		return
	}
	control := http.NewResponseController(x.w)
	control.SetReadDeadline(time.Time{}) // the request is complete
	h := x.w.Header()
	h["Content-Type"] = eventType
	h["X-Accel-Buffering"] = []string{"no"} // otherwise nginx buffers the events
	tick := time.NewTicker(eventPeriod)
	defer tick.Stop()
	for x.isOpen() {
		control.SetWriteDeadline(time.Now().Add(maxUnread))
		if _, err := x.w.Write(a.event(time.Now())); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
		select {
		case <-x.r.Context().Done():
			return
		case <-a.events.stopping:
			return
		case <-tick.C:
		}
	}
}

// event returns the newest event. Streams share it for half of eventPeriod.
func (a *API) event(now time.Time) []byte {
	e := &a.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if age := now.Sub(e.at); e.last == nil || age < 0 || age > eventPeriod/2 {
		e.at = now
		e.last = slices.Concat([]byte("data: "), marshal(a.stats(now)), []byte("\n"))
	}
	return e.last
}

// worst returns the worst case of limit i in words.
func worst(rule *enforce.Rule, i int) string {
	l := &rule.Compiled.Limits[i]
	return answer.WorstCase(l, answer.Span(time.Duration(l.Window)*time.Microsecond))
}
