package faulttest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// fleet is the number of engines that share the store, each as in its own process.
const fleet = 4

// maxInWindow is the limit under test behind a fallback, and fallbackWindow its
// window.
const (
	maxInWindow    = 40
	fallbackWindow = 200 * time.Millisecond
)

// fallbacks lists the modes with the bound that each promises for a window.
var fallbacks = []struct {
	name     string
	mode     engine.Outage
	inWindow int64 // units that a window may hold, -1 = any number
}{
	{"closed", fallback.Deny, maxInWindow},
	{"open", fallback.Allow, -1},
	{"share", fallback.Share, 2 * maxInWindow},
}

// outages are the faults of the store. It keeps its data, so that every excess is caused
// by the fallback.
var outages = map[string]func(t testing.TB, s *redistest.Server, r *rand.Rand){
	"frozen": func(t testing.TB, s *redistest.Server, r *rand.Rand) {
		s.Freeze(t)
		longer(r)
		s.Thaw(t)
	},
	"killed": func(t testing.TB, s *redistest.Server, r *rand.Rand) {
		s.Kill()
		longer(r)
		s.Restart(t)
	},
	"comes and goes": func(t testing.TB, s *redistest.Server, r *rand.Rand) {
		for range 5 {
			s.Freeze(t)
			time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
			s.Thaw(t)
			time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		}
	},
}

// longer outlasts the window by more than a second.
func longer(r *rand.Rand) {
	time.Sleep(fallbackWindow + time.Second + callTime + time.Duration(500+r.IntN(500))*time.Millisecond)
}

// TestFallbacksKeepTheirBounds takes the store from several engines at once, under each
// fallback, and audits their grants together.
func TestFallbacksKeepTheirBounds(t *testing.T) {
	kinds := slices.Sorted(maps.Keys(outages))
	if *seeds == 0 {
		kinds = []string{"frozen"}
	}
	for i, c := range fallbacks {
		for _, kind := range kinds {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				eachClient(t, func(t *testing.T, cl client, r *rand.Rand) { fallsBack(t, cl, r, i, outages[kind]) })
			})
		}
	}
}

// fallsBack takes a fleet with fallbacks[i] through an outage and back.
func fallsBack(t *testing.T, cl client, r *rand.Rand, i int, outage func(testing.TB, *redistest.Server, *rand.Rand)) {
	c := fallbacks[i]
	server := redistest.Start(t, redistest.AOF...)
	limits := tightAndAll(maxInWindow, fallbackWindow)
	g := newRig(t, cl.open(t, at(server.Addr)), limits)
	g.beside = nil
	g.around = func(e engine.Engine) engine.Engine {
		return fallback.New(e, c.mode, fallback.Instances(fleet), fallback.Timeout(callTime))
	}
	var flows []*traffic
	for range fleet {
		flows = append(flows, g.on(t, cl.open(t, at(server.Addr))).traffic(2, patience, r))
	}
	for _, f := range flows {
		f.flows(t)
	}
	outage(t, server, r)
	back := g.clock()
	for _, f := range flows {
		f.recovers(t, back)
	}
	longer(r)
	var calls []call
	for _, f := range flows {
		calls = append(calls, f.end(t)...)
	}
	inTime(t, calls, callTime)
	if c.mode == fallback.Deny {
		someFailed(t, calls)
	} else {
		noErrors(t, calls)
		someDegraded(t, calls)
	}
	g.settle(t, calls, nothingLost)
	if c.inWindow >= 0 {
		g.audit(t, calls, c.inWindow-maxInWindow)
	}
}

// someDegraded fails the test if no fallback granted a unit: then there was no outage.
func someDegraded(t testing.TB, calls []call) {
	t.Helper()
	if !slices.ContainsFunc(calls, func(c call) bool { return c.degraded && c.granted > 0 }) {
		t.Errorf("no fallback granted anything in %d calls", len(calls))
	}
}

// recovers returns when the store has granted a call made after since.
func (f *traffic) recovers(t testing.TB, since time.Duration) {
	t.Helper()
	must.Await(t, "a grant of the store", func() bool {
		return f.has(func(c call) bool { return c.from >= since && c.granted > 0 && !c.degraded })
	})
}
