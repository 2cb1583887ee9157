// Package peers puts Weir and the rate limiters that Go programs use today
// behind one question: may this key act now?
//
// Every adapter sets its library up as the library's own documentation does for
// "limit per window, by key": a library that has no keys is given the sync.Map
// its users write. Nothing is tuned for or against a benchmark. What a library
// answers beyond yes or no is computed and dropped, so that its whole job is
// measured.
package peers

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Limiter answers for one limit over any number of keys. It is safe for
// concurrent use.
type Limiter interface {
	// Allow reports whether key may act now, and counts the act if so. A
	// Blocking peer always returns true, after its wait.
	Allow(key string) bool
}

// Kind is the algorithm a peer decides with.
type Kind string

const (
	RollingLog     Kind = "rolling log (exact)"
	TokenBucket    Kind = "token bucket"
	GCRA           Kind = "GCRA"
	FixedWindow    Kind = "fixed window from the first hit"
	Refill         Kind = "bucket refilled whole, once a window"
	SlidingCounter Kind = "two-window sliding counter"
	Spacing        Kind = "even spacing"
	NoLimit        Kind = "no limiter"
)

// Peer is one contestant.
type Peer struct {
	Name     string // unique; as in the tables
	Module   string // module path; "" for one written in this module
	Kind     Kind
	Note     string // how it is set up, where that is not obvious
	Blocking bool   // waits in place of refusing; has no place among decisions per second
	ShowOnly bool   // a second configuration: shown on the scoreboard, not timed

	// New returns a limiter of limit acts per window for each key.
	New func(limit int, window time.Duration) Limiter
}

// Exact reports whether the peer decides by a rolling log of its own, so that it
// does the same job as Weir.
func (p Peer) Exact() bool { return p.Kind == RollingLog && p.Name != Weir }

// Version is the module version this binary was built with.
func (p Peer) Version() string {
	if p.Module == "" {
		return "this module"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == p.Module {
			return moduleVersion(m)
		}
	}
	return "unknown"
}

func moduleVersion(m *debug.Module) string {
	if m.Replace != nil {
		return "this checkout"
	}
	return m.Version
}

// All returns every contestant, Weir first.
func All() []Peer {
	return []Peer{
		weirPeer(), xtime(), ulule(), throttledGCRA(), sethvargo(),
		httprateOnLimit(), httprateCounter(), tollboothKeys(), uber(),
		failsafeBursty(), juju(), slidingWindow(),
		plainLog(), beefsack(), catrateRing(),
		xtimeSpaced(),
	}
}

// Timed returns the contestants that can be asked as often as one likes: all
// but the blocking ones and the second configurations.
func Timed() []Peer {
	return slices.DeleteFunc(All(), func(p Peer) bool { return p.Blocking || p.ShowOnly })
}

// Named returns the contestant of that name, Loop and Floor among them, or an
// error that lists the names.
func Named(name string) (Peer, error) {
	all := append(All(), Loop(), Floor())
	var names []string
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Peer{}, fmt.Errorf("no contestant %q; there are %s", name, strings.Join(names, ", "))
}
