package server

import (
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/metrics"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/engine"
)

// lastMinute is the number of steps for which durations are reported.
const lastMinute = int(time.Minute / calls.StepTime)

// durations stores the counts of durations of decisions at the last steps.
type durations struct {
	mu    sync.Mutex                        // protects the following
	steps [lastMinute + 1]metrics.Durations // a ring buffer
	next  int                               // index of the next step
}

// add stores the durations of a step.
func (d *durations) add(now metrics.Durations) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps[d.next] = now
	d.next = (d.next + 1) % len(d.steps)
}

// oldest returns the durations at the oldest stored step.
func (d *durations) oldest() metrics.Durations {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps[d.next]
}

// sample reads the counters in every step until stop is closed. One goroutine reads the
// counters of all policies. Counters for each step would need a reading of the clock in every
// decision.
func (s *Server) sample(stop <-chan struct{}) {
	for {
		now := time.Now()
		select {
		case <-time.After(now.Truncate(calls.StepTime).Add(calls.StepTime).Sub(now)):
			s.sampler.Sample(s.api.Rules(), time.Now())
			s.durations.add(s.metrics.Durations())
		case <-stop:
			return
		}
	}
}

// health returns the state of the process and its store.
func (s *Server) health() httpapi.Health {
	oldest := s.durations.oldest()
	took := s.metrics.Durations().Since(&oldest)
	now := httpapi.Health{
		Version:   s.config.Version,
		Started:   httpapi.Stamp(s.started),
		InFlight:  s.capacity.InFlight.Load(),
		Decisions: took.Count(),
		P50MS:     millis(took.Within(0.5)),
		P99MS:     millis(took.Within(0.99)),
		WriteMS:   float64(s.instances.latency().Microseconds()) / 1e3,
	}
	switch c := &s.config; {
	case c.Memory != nil:
		now.Memory = memoryUse(c.Memory.Stats())
	case c.Disk != nil:
		n := c.Disk.Stats()
		now.Memory = memoryUse(n.Memory)
		now.Disk = &httpapi.DiskUse{Bytes: n.Bytes, Failures: n.Failures}
	}
	if f := s.config.Fallback; f != nil {
		n := f.Status()
		now.Calls = &httpapi.StoreCalls{
			Since:    httpapi.Stamp(n.Since),
			Failures: n.Failures,
			Timeouts: n.Timeouts,
			Degraded: n.Degraded,
		}
	}
	return now
}

// millis converts seconds to milliseconds. -1 stays -1.
func millis(seconds float64) float64 {
	if seconds < 0 {
		return seconds
	}
	return float64(time.Duration(seconds*1e9)) / 1e6
}

func memoryUse(n engine.MemoryStats) *httpapi.MemoryUse {
	return &httpapi.MemoryUse{
		Keys:     n.Keys,
		Bytes:    n.Bytes,
		MaxKeys:  n.MaxKeys,
		MaxBytes: n.MaxBytes,
		Rejected: n.Rejected,
	}
}

// maxChanges is the largest number of changes that are kept of a reload.
const maxChanges = 100

// shortened returns at most maxChanges changes.
func shortened(changes []string) []string {
	if left := len(changes) - maxChanges; left > 0 {
		return append(changes[:maxChanges:maxChanges], fmt.Sprintf("and %d more", left))
	}
	return changes
}
