// Package serving holds the policies that weir serve enforces, as one set that a
// reload replaces. HTTP, gates and RESP decide through [Policy.Apply], which also
// counts and traces the call. Envoy's rate limit service decides through
// the rule, and reports its calls to the policy.
//
// A [Set] never changes, so a request that loads it once sees one version of the file.
// The counters of a policy pass to the policy of the same name in the next set.
package serving

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/metrics"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirhttp"
)

// Set is the policies in force.
type Set struct {
	Generation int64     // 1 for the first set, one more for each reload
	Since      time.Time // in force from then on
	Source     string    // of the policies, for people: a file name
	File       *policy.File
	Policies   []*Policy // in the order of the file; none only beside an Envoy configuration
	Limits     int       // of all policies together
	byName     map[string]*Policy
}

// Compiler makes sets.
type Compiler struct {
	Engine  engine.Engine
	Metrics *metrics.Metrics
	Tracer  observe.Tracer // nil = tracing is off
	TopKeys topkeys.Form
	Log     *observe.Log // of warnings; nil = they are not logged

	Recorder *recorder.Recorder // of calls; nil = they are not recorded
}

// ErrNoPolicy reports a file without policies.
var ErrNoPolicy = errors.New("weir: there is no policy to serve; name a file with at least one")

// Compile makes a set of all policies of f. before is the set in force, nil at the
// start: policies keep the counters of their name in it. f may hold no policy.
func (c *Compiler) Compile(f *policy.File, source string, before *Set) (*Set, error) {
	set := &Set{Generation: 1, Since: time.Now(), Source: source, File: f, byName: make(map[string]*Policy, len(f.Policies))}
	var known map[string]*Policy
	if before != nil {
		set.Generation, known = before.Generation+1, before.byName
	}
	for _, p := range f.Policies {
		if set.byName[p.Name] != nil {
			return nil, fmt.Errorf("weir: the policy %q is there twice", p.Name)
		}
		next, err := c.compile(p, known[p.Name], len(f.Policies))
		if err != nil {
			return nil, err
		}
		set.Policies = append(set.Policies, next)
		set.byName[p.Name] = next
		set.Limits += len(next.Compiled.Limits)
	}
	return set, nil
}

// compile makes one of n policies ready to decide. before is the policy of its name
// in the set in force, or nil.
func (c *Compiler) compile(source *policy.Definition, before *Policy, n int) (*Policy, error) {
	rule, err := enforce.NewRule(source, c.Engine)
	if err != nil {
		return nil, err
	}
	compiled := rule.Base().Limiter.Compiled()
	p := &Policy{Rule: rule, Compiled: compiled, field: []string{weirhttp.PolicyField(compiled)}, tracer: c.Tracer, log: c.Log}
	if c.Recorder != nil {
		p.record = c.Recorder.Policy(rule)
	}
	var limits []string
	var warns []bool
	for i, l := range compiled.Limits {
		limits, warns = append(limits, l.Name), append(warns, p.WarnAt(i) > 0)
	}
	var counts *metrics.Policy
	if before != nil {
		counts = before.Counts
	}
	p.Counts = c.Metrics.Policy(p.Name, limits, warns, counts)
	if before != nil && slices.Equal(before.Dimensions(), p.Dimensions()) {
		p.Top = before.Top
	} else {
		p.Top = c.NewSketch(n)
	}
	return p, nil
}

// Bounds of the sketches: each has maxSlots counters, fewer where all together would
// have more than allSlots.
const (
	maxSlots = 512
	minSlots = 32
	allSlots = 100_000
)

// NewSketch returns one of n sketches of denied keys; nil if none are kept.
func (c *Compiler) NewSketch(n int) *topkeys.Sketch {
	if c.TopKeys == topkeys.Off {
		return nil
	}
	return topkeys.New(min(maxSlots, max(minSlots, allSlots/max(n, 1))), c.TopKeys)
}

// Find returns the policy of that name. The error of an unknown one wraps missing, and
// suggests the nearest name.
func (set *Set) Find(name string, missing error) (*Policy, error) {
	if p := set.byName[name]; p != nil {
		return p, nil
	}
	return nil, set.unknown(name, missing)
}

// unknown returns the error of Find for a name without a policy.
func (set *Set) unknown(name string, missing error) error {
	names := make([]string, len(set.Policies))
	for i, p := range set.Policies {
		names[i] = p.Name
	}
	detail := "no policy " + quoted(name)
	if near := nearest.Name(name, names); near != "" {
		detail += "; did you mean " + strconv.Quote(near) + "?"
	} else {
		detail += "; GET /v1/policies lists the policies"
	}
	return &Problem{Err: missing, Detail: detail}
}

// quoted returns a name of a request in quotes.
func quoted(name string) string {
	shown := answer.Shown(name)
	if strings.HasPrefix(shown, `"`) {
		return shown
	}
	return strconv.Quote(shown)
}

// Problem is a request that gets no decision for a reason of its own. Nothing was
// charged (R14).
type Problem struct {
	Err    error  // weir.ErrInput, ErrMissing, weir.ErrSettled or weir.ErrExpired
	Detail string // the reason and the next step
	Log    string // Detail without values of the request, for the log; "" = Detail has none
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// Unwrap returns Err.
func (p *Problem) Unwrap() error { return p.Err }

// ErrMissing is wrapped by the problem of a request that names something unknown.
var ErrMissing = fmt.Errorf("%w: not found", weir.ErrInput)

// BadInput returns a problem that wraps weir.ErrInput.
func BadInput(detail string) error { return &Problem{Err: weir.ErrInput, Detail: detail} }

// IsBadInput reports whether err concerns the request, not the store.
func IsBadInput(err error) bool {
	var p *Problem
	return errors.As(err, &p) || answer.IsBadInput(err)
}
