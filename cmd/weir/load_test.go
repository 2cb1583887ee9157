package main

import (
	"sync"
	"sync/atomic"
	"testing"
)

// awaitNotReady waits until /readyz fails.
func (p *process) awaitNotReady(t *testing.T) {
	t.Helper()
	await(t, "/readyz fails", func() bool {
		status, _ := getPage(t, p.addr, "/readyz")
		return status == 503
	})
}

// On every listener each attempt is answered while weir lingers.
func TestTerminateAnswersOnEveryListener(t *testing.T) {
	const clients = 3 // of each front
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--linger", "2s")
	var answered atomic.Int64
	var left atomic.Bool
	var all sync.WaitGroup
	for _, front := range frontNames {
		for range clients {
			all.Go(func() {
				for !left.Load() {
					if got := f.attempt(front, "denies"); got != passes {
						t.Errorf("%s says %s", front, got)
						return
					}
					answered.Add(1)
				}
			})
		}
	}
	await(t, "answers", func() bool { return answered.Load() >= 1000 })
	f.terminate(t)
	f.awaitNotReady(t)
	before := answered.Load()
	await(t, "answers while weir lingers", func() bool { return answered.Load() >= before+100 })
	left.Store(true)
	all.Wait()
	f.ended(t)
	if n := answered.Load(); n < 1100 {
		t.Errorf("%d answers, want 1,100 and more", n)
	}
}
