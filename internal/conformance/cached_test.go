package conformance

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// cachingProcess is one process on a store, which caches denials as R8 permits, or with one
// fault. Each of its own writes ends all of its cached denials.
type cachingProcess struct {
	*spec.Engine // the store
	ttl          time.Duration
	spoil        func(r *engine.Result) // changes cached answers
	other        bool                   // cached denials answer for other units
	ends         func(c *engine.Call)   // ends cached denials after a write; by default all
	denied       map[string]kept
}

// kept is a cached denial, which changes when units leave.
type kept struct {
	result   engine.Result
	validFor time.Duration
}

func newCachingProcess(store *spec.Engine, ttl time.Duration) *cachingProcess {
	p := &cachingProcess{Engine: store, ttl: ttl, denied: map[string]kept{}}
	p.ends = func(*engine.Call) { clear(p.denied) }
	return p
}

func (p *cachingProcess) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		if c := &calls[i]; c.Err == nil {
			p.decide(ctx, calls[i:i+1])
			if c.Err == nil && (spec.Changes(c) || c.Op == engine.Refund) {
				p.ends(c)
			}
		}
	}
}

// endOfKey ends the cached denials of the call's key, though others may count in the same histories.
func (p *cachingProcess) endOfKey(c *engine.Call) {
	maps.DeleteFunc(p.denied, func(name string, _ kept) bool { return strings.HasSuffix(name, keyText(c)) })
}

// endExceptAt ends all cached denials, but at one operation none.
func (p *cachingProcess) endExceptAt(op engine.Op) func(c *engine.Call) {
	return func(c *engine.Call) {
		if c.Op != op {
			clear(p.denied)
		}
	}
}

// keyText returns the values of a call's key.
func keyText(c *engine.Call) (text string) {
	for i := range c.Key.Len() {
		text += "\x00" + c.Key.Value(i)
	}
	return text
}

// decide decides one call, or repeats a denial.
func (p *cachingProcess) decide(ctx context.Context, call []engine.Call) {
	c := &call[0]
	if c.Given || c.ID != "" || c.States != nil || c.Op != engine.Attempt || c.Rules.Mode == weir.CountDenied {
		p.Engine.Do(ctx, call)
		return
	}
	name := fmt.Sprint(c.Rules.Name, " ", c.N)
	if p.other {
		name = c.Rules.Name
	}
	name += keyText(c)
	if was, ok := p.denied[name]; ok {
		if age := time.Since(was.result.At).Truncate(us); age < min(p.ttl, was.validFor) {
			c.Result = was.result
			c.Result.Cached, c.Result.At = true, c.Result.At.Add(age)
			if c.Result.RetryAfter != weir.Never {
				c.Result.RetryAfter -= age
			}
			c.Result.ResetAfter = max(0, c.Result.ResetAfter-age)
			c.Result.Blocked = max(0, c.Result.Blocked-age)
			if p.spoil != nil {
				p.spoil(&c.Result)
			}
			return
		}
	}
	c.States = make([]engine.State, len(c.Rules.Limits))
	if p.Engine.Do(ctx, call); c.Err != nil || c.Result.Granted > 0 {
		return
	}
	validFor := p.ttl
	for _, s := range c.States {
		for _, change := range []time.Duration{s.NextAfter, s.MinIntervalAfter} {
			if change > 0 {
				validFor = min(validFor, change)
			}
		}
	}
	p.denied[name] = kept{c.Result, validFor}
}

// turns makes each call in another process.
type turns struct {
	processes []engine.Engine
	next      int
}

func (e *turns) Do(ctx context.Context, calls []engine.Call) {
	e.next++
	e.processes[e.next%len(e.processes)].Do(ctx, calls)
}

// TestCachedDenials: the live histories accept cached denials as far as R8 permits them, of
// one process and of several, and no others.
func TestCachedDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		one := func(change func(p *cachingProcess)) engine.Engine {
			p := newCachingProcess(spec.New(), ttl)
			change(p)
			return p
		}
		two := func() engine.Engine {
			store := spec.New()
			return &turns{processes: []engine.Engine{newCachingProcess(store, ttl), newCachingProcess(store, ttl)}}
		}
		spoiled := func(spoil func(d *engine.Result)) engine.Engine {
			return one(func(p *cachingProcess) { p.spoil = spoil })
		}
		for _, c := range []struct {
			about  string
			engine engine.Engine
			config Config
			want   string // in the report; "" = none
		}{
			{"one process", one(func(*cachingProcess) {}), Config{CacheTTL: ttl}, ""},
			{"two processes", two(), Config{CacheTTL: ttl, Separate: true}, ""},
			{"two processes, taken for one", two(), Config{CacheTTL: ttl}, "differ"},
			{"an engine that shares no store", one(func(*cachingProcess) {}), Config{}, "The cached differs"},
			{"too old", one(func(*cachingProcess) {}), Config{CacheTTL: 10 * us}, "The cached differs"},
			{"too old, of two processes", two(), Config{CacheTTL: 10 * us, Separate: true}, "differ"},
			{"its own writes are ignored", one(func(p *cachingProcess) { p.ends = func(*engine.Call) {} }), Config{CacheTTL: ttl}, "differ"},
			{"its own settlements are ignored", one(func(p *cachingProcess) { p.ends = p.endExceptAt(engine.Settle) }), Config{CacheTTL: ttl}, "differ"},
			{"its own blocks are ignored", one(func(p *cachingProcess) { p.ends = p.endExceptAt(engine.Block) }), Config{CacheTTL: ttl}, "differ"},
			{"those of other keys stay", one(func(p *cachingProcess) { p.ends, p.spoil = p.endOfKey, unmark }), Config{}, "differ"},
			{"for other units", one(func(p *cachingProcess) { p.other = true }), Config{CacheTTL: ttl, Separate: true}, "differ"},
			{"not marked, of two processes", two().(*turns).unmarked(), Config{CacheTTL: ttl, Separate: true}, "differ"},
			{"a wait that does not pass", spoiled(func(d *engine.Result) { d.RetryAfter += us }), Config{CacheTTL: ttl, Separate: true}, "The wait differs"},
			{"a grant", spoiled(func(d *engine.Result) { d.Allowed = true }), Config{CacheTTL: ttl, Separate: true}, "The granted differs"},
			{"a replay", spoiled(func(d *engine.Result) { d.Replayed = true }), Config{CacheTTL: ttl, Separate: true}, "The replayed differs"},
		} {
			c.config.Hammers, c.config.Seed = 8, 1
			switch report := live(c.engine, c.config); {
			case c.want == "" && report != "":
				t.Errorf("%s: %s", c.about, report)
			case c.want != "" && !strings.Contains(report, c.want):
				t.Errorf("%s: the report is %q, want one with %q", c.about, report, c.want)
			}
		}
	})
}

// unmark removes the mark of a cached denial.
func unmark(d *engine.Result) { d.Cached = false }

// unmarked removes the marks of cached denials.
func (e *turns) unmarked() engine.Engine {
	for _, p := range e.processes {
		p.(*cachingProcess).spoil = unmark
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
