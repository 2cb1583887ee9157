// Package enforce applies the policies of a file to an engine, with every feature of the
// file: plans, overrides, shadows, blocks, counts of reports and the words for outages. The
// public package enforce and every front of the program decide through it.
//
// A policy, its plans and its overrides share one set of histories (R12). So a key that
// changes its plan keeps the units it has used. A limit that blocks keeps its blocks in
// a second history. Each attempt under such a policy costs two calls of the engine, and
// the denial that begins a block costs one more.
//
// # Trade-off
//
// Each policy, plan and override is compiled once, and each pair of a plan and an override
// at its first use, which takes a few microseconds. The clock of this process, not that of
// the store, decides whether an override has expired. At an override's last instant,
// processes may differ by the error of their clocks.
package enforce

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy"
)

// ErrNoPolicy reports that the file has no policy of the given name.
var ErrNoPolicy = errors.New("weir: no policy")

// Set applies the policies of one file to an engine. It is safe for concurrent use. A
// reload replaces all policies in one step: a decision uses the old file or the new one.
type Set struct {
	Engine engine.Engine

	reloading sync.Mutex // held while current is replaced
	current   atomic.Pointer[Version]
}

// Version is the policies of one reading of the file. It never changes, so a request that
// loads it once sees one version of the file.
type Version struct {
	Generation int64     // 1 for the first version, one more for each reload
	Since      time.Time // in force from then on
	File       *policy.File
	Source     []byte  // the content of the file that was read last, if the caller of Reload has set it
	Rules      []*Rule // in the order of the file
	Limits     int     // the limits of all policies together

	byName map[string]*Rule
}

// Reload replaces all policies by those of f. On an error the present ones stay in
// force. Histories stay: units already granted count under the new numbers, unless the kind
// of a limit changes (R12). The policies come into force after accept has returned nil for
// them; it may set the handles of rules. A nil accept accepts all. The error of a policy is
// a *[weir.PolicyError].
func (s *Set) Reload(f *policy.File, accept func(next, now *Version) error) error {
	switch {
	case f == nil:
		return engine.Input("request", "the Set got no file; parse one with policy.Parse or policy.Load")
	case isnil.Is(s.Engine):
		return engine.Input("request", "the Set has no engine; pass weir.NewMemory() or an opened store")
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	now := s.Version()
	next := &Version{Generation: now.Generation + 1, Since: time.Now(), File: f, Source: now.Source, byName: make(map[string]*Rule, len(f.Policies))}
	for _, p := range f.Policies {
		r, err := NewRule(p, s.Engine)
		if err != nil {
			return err
		}
		if next.byName[p.Name] != nil {
			return engine.Input("request", "the policy %q is there twice; give each policy a name of its own", p.Name)
		}
		next.byName[p.Name] = r
		next.Rules, next.Limits = append(next.Rules, r), next.Limits+len(p.Limits)
	}
	if accept != nil {
		if err := accept(next, now); err != nil {
			return err
		}
	}
	s.current.Store(next)
	return nil
}

// Version returns the policies in force. The zero Set has none.
func (s *Set) Version() *Version {
	if v := s.current.Load(); v != nil {
		return v
	}
	return &Version{}
}

var errZeroSet = errors.New("enforce: the zero Set has no policies; make one with enforce.Open or enforce.New")

// Rule returns the policy of that name. The error wraps [ErrNoPolicy] and suggests the
// nearest name.
func (v *Version) Rule(name string) (*Rule, error) {
	if r := v.byName[name]; r != nil {
		return r, nil
	}
	if v.File == nil {
		return nil, errZeroSet
	}
	shown := answer.Quoted(name)
	var names []string
	for _, r := range v.Rules[:min(len(v.Rules), 200)] { // more would cost time
		names = append(names, r.Name)
	}
	if near := nearest.Name(name, names); near != "" {
		return nil, fmt.Errorf("%w %s; did you mean %q?", ErrNoPolicy, shown, near)
	}
	return nil, fmt.Errorf("%w %s", ErrNoPolicy, shown)
}
