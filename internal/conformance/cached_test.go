package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spec"
)

// cachingProcess is one process on a store, which caches denials as R8 permits, or with one
// fault. Each of its own writes ends all of its cached denials.
type cachingProcess struct {
	*spec.Engine // the store
	ttl          time.Duration
	spoil        func(d *weir.Decision) // changes cached answers
	other        bool                   // cached denials answer for other units
	keeps        bool                   // its own writes end none
	denied       map[string]kept
}

// kept is a cached denial, which changes when units leave.
type kept struct {
	d        weir.Decision
	validFor time.Duration
}

func newCachingProcess(store *spec.Engine, ttl time.Duration) *cachingProcess {
	return &cachingProcess{Engine: store, ttl: ttl, denied: map[string]kept{}}
}

func (p *cachingProcess) Decide(ctx context.Context, plan *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
	if !r.At.IsZero() || r.ID != "" || r.States != nil || r.Op == weir.OpPeek || plan.Mode() == weir.CountDenied {
		return p.Engine.Decide(ctx, plan, k, r)
	}
	name := fmt.Sprint(plan.Name(), " ", r.N)
	if p.other {
		name = plan.Name()
	}
	for i := range k.Len() {
		name += "\x00" + k.Value(i)
	}
	if was, ok := p.denied[name]; ok && r.Op == weir.OpAttempt {
		if age := time.Since(was.d.At).Truncate(us); age < min(p.ttl, was.validFor) {
			d := spec.Cached(was.d, age)
			if p.spoil != nil {
				p.spoil(&d)
			}
			return d, nil
		}
	}
	r.States = make([]weir.LimitState, len(plan.Limits()))
	d, err := p.Engine.Decide(ctx, plan, k, r)
	if err != nil || d.Granted > 0 || r.Op == weir.OpRecord {
		p.wrote()
		return d, err
	}
	validFor := p.ttl
	for _, s := range r.States {
		for _, change := range []time.Duration{s.NextAfter, s.MinIntervalAfter} {
			if change > 0 {
				validFor = min(validFor, change)
			}
		}
	}
	p.denied[name] = kept{d, validFor}
	return d, nil
}

func (p *cachingProcess) wrote() {
	if !p.keeps {
		clear(p.denied)
	}
}

func (p *cachingProcess) Refund(ctx context.Context, plan *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	defer p.wrote()
	return p.Engine.Refund(ctx, plan, k, at, n, now)
}

func (p *cachingProcess) Reset(ctx context.Context, plan *weir.Plan, k weir.Key) error {
	defer p.wrote()
	return p.Engine.Reset(ctx, plan, k)
}

// turns makes each call in another process.
type turns struct {
	weir.Engine // the store
	processes   []weir.Engine
	next        int
}

func (e *turns) process() weir.Engine {
	e.next++
	return e.processes[e.next%len(e.processes)]
}

func (e *turns) Decide(ctx context.Context, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
	return e.process().Decide(ctx, p, k, r)
}

func (e *turns) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	return e.process().Refund(ctx, p, k, at, n, now)
}

func (e *turns) Reset(ctx context.Context, p *weir.Plan, k weir.Key) error {
	return e.process().Reset(ctx, p, k)
}

// TestCachedDenials: the live histories accept cached denials as far as R8 permits them, of
// one process and of several, and no others.
func TestCachedDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		one := func(change func(p *cachingProcess)) weir.Engine {
			p := newCachingProcess(spec.New(), ttl)
			change(p)
			return p
		}
		two := func() weir.Engine {
			store := spec.New()
			return &turns{Engine: store, processes: []weir.Engine{newCachingProcess(store, ttl), newCachingProcess(store, ttl)}}
		}
		spoiled := func(spoil func(d *weir.Decision)) weir.Engine {
			return one(func(p *cachingProcess) { p.spoil = spoil })
		}
		for _, c := range []struct {
			about  string
			engine weir.Engine
			config Config
			want   string // in the report; "" = none
		}{
			{"one process", one(func(*cachingProcess) {}), Config{CacheTTL: ttl}, ""},
			{"two processes", two(), Config{CacheTTL: ttl, Separate: true}, ""},
			{"two processes, taken for one", two(), Config{CacheTTL: ttl}, "differ"},
			{"an engine that shares no store", one(func(*cachingProcess) {}), Config{}, "The cached differs"},
			{"too old", one(func(*cachingProcess) {}), Config{CacheTTL: 10 * us}, "The cached differs"},
			{"too old, of two processes", two(), Config{CacheTTL: 10 * us, Separate: true}, "The cached differs"},
			{"its own writes are ignored", one(func(p *cachingProcess) { p.keeps = true }), Config{CacheTTL: ttl}, "differ"},
			{"for other units", one(func(p *cachingProcess) { p.other = true }), Config{CacheTTL: ttl, Separate: true}, "differ"},
			{"not marked, of two processes", two().(*turns).unmarked(), Config{CacheTTL: ttl, Separate: true}, "differ"},
			{"a wait that does not pass", spoiled(func(d *weir.Decision) { d.RetryAfter += us }), Config{CacheTTL: ttl, Separate: true}, "The wait differs"},
			{"a grant", spoiled(func(d *weir.Decision) { d.Allowed = true }), Config{CacheTTL: ttl, Separate: true}, "The granted differs"},
			{"a replay", spoiled(func(d *weir.Decision) { d.Replayed = true }), Config{CacheTTL: ttl, Separate: true}, "The repeated differs"},
		} {
			c.config.Hammers, c.config.Seed = 4, 1
			switch report := live(c.engine, c.config); {
			case c.want == "" && report != "":
				t.Errorf("%s: %s", c.about, report)
			case c.want != "" && !strings.Contains(report, c.want):
				t.Errorf("%s: the report is %q, want one with %q", c.about, report, c.want)
			}
		}
	})
}

// unmarked removes the mark of cached denials.
func (e *turns) unmarked() weir.Engine {
	for _, p := range e.processes {
		p.(*cachingProcess).spoil = func(d *weir.Decision) { d.Cached = false }
	}
	return e
}

// TestMarks lists decisions that an engine may or may not mark Cached.
func TestMarks(t *testing.T) {
	denied, granted := weir.Decision{Cached: true}, weir.Decision{Allowed: true, Granted: 1, Cached: true}
	for _, c := range []struct {
		d    weir.Decision
		ttl  time.Duration
		mode weir.Mode
		id   string
		ok   bool
	}{
		{weir.Decision{}, 0, weir.AllOrNothing, "", true},
		{denied, time.Second, weir.AllOrNothing, "", true},
		{denied, time.Second, weir.Partial, "", true},
		{denied, 0, weir.AllOrNothing, "", false},
		{denied, time.Second, weir.CountDenied, "", false},
		{denied, time.Second, weir.AllOrNothing, "id", false},
		{granted, time.Second, weir.AllOrNothing, "", false},
	} {
		if err := (&Config{CacheTTL: c.ttl}).checkMark(&c.d, c.mode, c.id); (err == nil) != c.ok {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
