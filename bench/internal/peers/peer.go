// Package peers puts Weir and the rate limiters that Go programs use today behind one
// interface: may this key act now?
//
// Every adapter sets its library up as the library's own documentation does for "limit per
// window, by key". A library without keys gets the sync.Map that its users write. Nothing
// is tuned for or against a benchmark. Further results of a library are computed and
// dropped, so that its whole work is measured.
package peers

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Limiter decides for one limit over any number of keys. It is safe for
// concurrent use.
type Limiter interface {
	// Allow reports whether key may act now, and counts the act if so. A Blocking peer always
	// returns true, after its wait.
	Allow(key string) bool
}

// Kind is the algorithm of a peer.
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
	Note     string // its configuration, if that is not obvious
	Blocking bool   // waits instead of denying; not measured in decisions per second
	ShowOnly bool   // a second configuration: shown on the scoreboard, not timed

	// New returns a limiter of limit acts per window for each key.
	New func(limit int, window time.Duration) Limiter
}

// Exact reports whether the peer decides by a rolling log, as Weir does.
func (p Peer) Exact() bool { return p.Kind == RollingLog && p.Name != Weir }

// Version returns the module version of this binary.
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

// Timed returns the contestants for measurements of speed: all except the blocking ones
// and the second configurations.
func Timed() []Peer {
	return slices.DeleteFunc(All(), func(p Peer) bool { return p.Blocking || p.ShowOnly })
}

// Named returns the contestant of that name, Loop and the floors among them, or an
// error that lists the names.
func Named(name string) (Peer, error) {
	all := append(All(), Loop(), Floor(), ShardedFloor())
	var names []string
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Peer{}, fmt.Errorf("no contestant %q; there are %s", name, strings.Join(names, ", "))
}
