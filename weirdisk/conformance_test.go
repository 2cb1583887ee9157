package weirdisk

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/weirtest"
)

// TestConformance checks the engine against all rules in each mode. It is closed and opened
// again every few hundred calls.
func TestConformance(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var restarts atomic.Int64 // total of all engines, which the kit opens side by side
			weirtest.Run(t, func(t *testing.T) engine.Engine {
				e := &restarting{t: t, mode: mode}
				e.restart(t.TempDir())
				t.Cleanup(func() { restarts.Add(int64(e.restarts)) })
				return e
			}, weirtest.Attempts(4_000), weirtest.Hammers(4))
			if restarts.Load() < 100 {
				t.Errorf("%d restarts, want more", restarts.Load())
			}
			t.Logf("%d restarts", restarts.Load())
		})
	}
}

// restarting is an engine that restarts between calls.
type restarting struct {
	t    *testing.T
	mode Option

	mu       sync.RWMutex // held for writing to restart, and for reading during calls
	e        *Engine
	dir      string
	calls    int    // since the last restart
	policy   string // name in the last call
	restarts int
	fresh    int // restarts since the directory was empty
}

const (
	callsPerLife = 300
	livesPerDir  = 20 // then a new policy begins in another directory, because restarts take longer
)

func (r *restarting) restart(dir string) {
	if r.e != nil {
		if err := r.e.Close(); err != nil {
			r.t.Errorf("close: %v", err)
		}
	}
	e, err := Open(dir, r.mode)
	if err != nil {
		r.t.Errorf("restart %d: %v", r.restarts, err)
		return
	}
	r.t.Cleanup(func() { e.Close() })
	r.e, r.dir, r.calls = e, dir, 0
	r.restarts++
	r.fresh++
}

// Do makes the calls on the engine.
func (r *restarting) Do(c context.Context, calls []engine.Call) {
	r.mu.Lock()
	if r.calls += len(calls); r.calls >= callsPerLife {
		if name := calls[0].Rules.Name; name != r.policy && r.fresh > livesPerDir {
			r.dir, r.fresh = r.t.TempDir(), 0
		}
		r.restart(r.dir)
	}
	r.policy = calls[0].Rules.Name
	r.mu.Unlock()
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.e.Do(c, calls)
}
