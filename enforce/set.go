// Package enforce applies the policies of a file to an engine, with every feature of the
// file: plans, overrides, shadows, blocks, counts of reports, the words for
// outages, and reload while the program runs. Every front end of weir uses it.
//
//	set, err := enforce.Open("weir.yaml", weir.NewMemory())
//	out, err := set.Check(ctx, "login", enforce.Values{"user": "ann"}, 1)
//
// A [Set] holds all policies of a file. A [Rule] is one of them, for programs that look
// the policy up once.
//
// A policy, its plans and its overrides share one set of histories (R12). So a key that
// changes its plan keeps the units it has used. A limit that blocks keeps its blocks in
// a second history. Each attempt under such a policy costs two calls of the engine, and
// the denial that begins a block costs one more.
//
// # Trade-off
//
// Package weir alone is enough for limits that are written in Go: it has fewer types and
// skips the lookup of policy and plan. Package enforce compiles each policy once, and
// each pair of a plan and an override at its first use, which takes a few microseconds.
// The clock of this process, not that of the store, decides whether an override has
// expired. At an override's last instant, processes may differ by the error of their
// clocks.
package enforce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy"
)

// ErrNoPolicy reports that the file has no policy of the given name.
var ErrNoPolicy = errors.New("weir: no policy")

// Values is a key by the names of its dimensions, such as {"user": "ann"}. It also holds
// the value of plan-by, if the policy has plans and the caller has one.
type Values map[string]string

// Set applies the policies of one file to an engine. It is safe for concurrent use. A
// reload replaces all policies in one step: a decision uses the old file or the new one.
type Set struct {
	engine   engine.Engine
	observer Observer // nil = none
	path     string   // the file that Open read; "" for New

	reloading sync.Mutex // held while current is replaced
	current   atomic.Pointer[Version]
}

// Version is the policies of one reading of the file. It never changes, so a request that
// loads it once sees one version of the file.
type Version struct {
	Generation int64     // 1 for the first version, one more for each reload
	Since      time.Time // in force from then on
	File       *policy.File
	Rules      []*Rule // in the order of the file
	Limits     int     // of all policies together

	source []byte // the content that Open or Watch read
	byName map[string]*Rule
}

// Option changes a Set that New or Open makes.
type Option func(*Set)

// WithObserver passes every call of a policy to o. A nil Observer changes nothing.
func WithObserver(o Observer) Option { return func(s *Set) { s.observer = o } }

// New returns a Set of the policies of f on e. A [fallback.Engine] takes the mode for
// outages from each policy's when-store-is-down. The error is a *[weir.PolicyError].
func New(f *policy.File, e engine.Engine, options ...Option) (*Set, error) {
	s := setOf(e, options)
	return s, s.Reload(f)
}

func setOf(e engine.Engine, options []Option) *Set {
	s := &Set{engine: e}
	for _, o := range options {
		o(s)
	}
	return s
}

// Open returns a Set of the policies of the file at path. The error is that of
// [policy.Load]. The file is read once; [Set.Watch] reloads it when it changes.
func Open(path string, e engine.Engine, options ...Option) (*Set, error) {
	src, err := policy.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := setOf(e, options)
	s.path = path
	return s, s.reloadSource(src)
}

// Reload replaces all policies by those of f. On an error the present ones stay in
// force. Histories stay: units already granted count under the new numbers, unless the kind
// of a limit changes (R12). The policies come into force after all of the functions accept
// have returned nil for them.
func (s *Set) Reload(f *policy.File, accept ...func(*Version) error) error {
	return s.reload(f, nil, accept)
}

func (s *Set) reload(f *policy.File, source []byte, accept []func(*Version) error) error {
	switch {
	case f == nil:
		return engine.Input("request", "the Set got no file; parse one with policy.Parse or policy.Load")
	case isnil.Is(s.engine):
		return engine.Input("request", "the Set has no engine; pass weir.NewMemory() or an opened store")
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	next, err := s.compile(f, source)
	if err != nil {
		return err
	}
	for _, accepts := range accept {
		if err := accepts(next); err != nil {
			return err
		}
	}
	s.current.Store(next)
	return nil
}

// compile returns the version after the present one. s.reloading is held.
func (s *Set) compile(f *policy.File, source []byte) (*Version, error) {
	now := s.Version()
	next := &Version{Generation: now.Generation + 1, Since: time.Now(), File: f, source: source, byName: make(map[string]*Rule, len(f.Policies))}
	for _, p := range f.Policies {
		if next.byName[p.Name] != nil {
			return nil, engine.Input("request", "the policy %q is there twice; give each policy a name of its own", p.Name)
		}
		r, err := NewRule(p, s.engine)
		if err != nil {
			return nil, err
		}
		next.byName[p.Name] = r
		next.Rules, next.Limits = append(next.Rules, r), next.Limits+len(p.Limits)
	}
	if s.observer != nil {
		for _, r := range next.Rules {
			var before Handle
			if old := now.byName[r.Name]; old != nil {
				before = old.Handle
			}
			r.Handle = s.observer.Rule(r, before)
		}
	}
	return next, nil
}

// Watch reloads the file whenever its content changes, until ctx is done. It blocks, so
// run it in a goroutine of its own. It calls reloaded, unless that is nil, after each
// attempt: with nil, or with the reason why the present policies stay in force. Watch
// notices files written in place, renamed into place, or reached through a swapped link.
// It returns ctx.Err(), or immediately an error if the Set has no file because New made it.
func (s *Set) Watch(ctx context.Context, reloaded func(error)) error {
	if s.path == "" {
		return errors.New("weir: enforce.New has no file to watch; use enforce.Open, or Set.Reload")
	}
	w := filewatch.Watcher{Path: s.path, Seen: s.Version().source, Read: func() ([]byte, error) { return policy.ReadFile(s.path) }}
	w.Run(ctx, func(c filewatch.Content) {
		err := c.Err
		if err == nil {
			err = s.reloadSource(c.Bytes)
		}
		if reloaded != nil {
			reloaded(err)
		}
	})
	return ctx.Err()
}

func (s *Set) reloadSource(src []byte) error {
	f, err := policy.Parse(s.path, src)
	if err != nil {
		return err
	}
	return s.reload(f, src, nil)
}

// Version returns the policies in force. The zero Set has none.
func (s *Set) Version() *Version {
	if s != nil {
		if v := s.current.Load(); v != nil {
			return v
		}
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
	return nil, v.unknown(name)
}

// unknown returns the error of a name without a policy.
func (v *Version) unknown(name string) error {
	shown := answer.Quoted(name)
	var names []string
	for _, r := range v.Rules[:min(len(v.Rules), 200)] { // more would cost time
		names = append(names, r.Name)
	}
	if near := nearest.Name(name, names); near != "" {
		return fmt.Errorf("%w %s; did you mean %q?", ErrNoPolicy, shown, near)
	}
	return fmt.Errorf("%w %s", ErrNoPolicy, shown)
}

// target returns the rule of a policy and the target that values select.
func (s *Set) target(name string, values Values) (*Rule, Target, error) {
	r, err := s.Version().Rule(name)
	if err != nil {
		return nil, Target{}, err
	}
	t, err := r.TargetOf(values)
	return r, t, err
}

// Check decides whether n units fit now, and charges them if they do. Under count:
// reported it charges nothing; report the units with [Set.Record]. A denial is not an
// error. The error wraps [ErrNoPolicy] for an unknown policy and is a [weir.InputError] for
// values that do not match the policy's keys. Otherwise it is that of [weir.Limiter.AllowN].
func (s *Set) Check(ctx context.Context, name string, values Values, n int64) (Outcome, error) {
	return s.Decide(ctx, name, values, weir.Request{Op: weir.OpAttempt, N: n})
}

// Peek decides as Check does and charges nothing.
func (s *Set) Peek(ctx context.Context, name string, values Values, n int64) (Outcome, error) {
	return s.Decide(ctx, name, values, weir.Request{Op: weir.OpPeek, N: n})
}

// Record charges n units without a decision. Remaining may fall below 0.
func (s *Set) Record(ctx context.Context, name string, values Values, n int64) (Outcome, error) {
	return s.Decide(ctx, name, values, weir.Request{Op: weir.OpRecord, N: n})
}

// Decide decides an attempt, a peek or a record with all its options: an instant, an
// idempotency key, the states of all limits. Without an instant (Request.At) it decides now.
func (s *Set) Decide(ctx context.Context, name string, values Values, a weir.Request) (Outcome, error) {
	if a.Op > weir.OpRecord || a.TTL != 0 || !a.From.IsZero() {
		return Outcome{}, engine.Input("request", "a policy decides attempts, peeks and records, without TTL and From; refund by Set.Refund")
	}
	r, t, err := s.target(name, values)
	if err != nil {
		return Outcome{}, err
	}
	return r.Decide(ctx, &Request{Target: t, Op: a.Op, N: a.N, At: a.At, States: a.States, ID: a.ID})
}

// Refund returns up to n units of the grant at the instant at, which is Decision.At. It
// returns the number of units refunded.
func (s *Set) Refund(ctx context.Context, name string, values Values, at time.Time, n int64) (int64, error) {
	r, t, err := s.target(name, values)
	if err != nil {
		return 0, err
	}
	o, err := r.Decide(ctx, &Request{Target: t, Op: weir.OpRefund, From: at, N: n})
	return o.Granted, err
}

// Reset deletes the histories of a key and ends its blocks.
func (s *Set) Reset(ctx context.Context, name string, values Values) error {
	r, t, err := s.target(name, values)
	if err != nil {
		return err
	}
	_, err = r.Decide(ctx, &Request{Target: t, Op: engine.Reset})
	return err
}
