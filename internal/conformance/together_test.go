package conformance

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
)

// joining is an engine with a fault in the decisions about several calls.
type joining struct {
	engine.Engine
	fault func(e engine.Engine, c *engine.Call)
}

func (j joining) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		if c := &calls[i]; c.Rules.Joined {
			j.fault(j.Engine, c)
		} else {
			decide(j.Engine, c)
		}
	}
}

// oneByOne decides the limits of calls one after the other, until one denies.
func oneByOne(e engine.Engine, c *engine.Call) {
	for i := range c.Rules.Limits {
		part := engine.Call{Rules: only(c.Rules, i), Key: c.Key, N: c.N, At: c.At, Given: c.Given, States: c.States[i : i+1]}
		if decide(e, &part); part.Err != nil || !part.Result.Allowed {
			c.Result, c.Err = part.Result, part.Err
			return
		}
		c.Result = part.Result
		runtime.Gosched()
	}
}

// changed returns a fault that changes each limit of the rules.
func changed(change func(c *engine.Compiled, l *engine.Limit)) func(engine.Engine, *engine.Call) {
	return func(e engine.Engine, c *engine.Call) {
		rules := &engine.Compiled{Name: c.Rules.Name, Mode: c.Rules.Mode, Dimensions: c.Rules.Dimensions,
			Limits: slices.Clone(c.Rules.Limits), Joined: true, Calls: c.Rules.Calls}
		for i := range rules.Limits {
			change(rules, &rules.Limits[i])
		}
		c.Rules = rules
		decide(e, c)
	}
}

// calledAs returns a fault of the calls by which blocks begin.
func calledAs(calls func(*engine.Compiled) [][]int) func(engine.Engine, *engine.Call) {
	return func(e engine.Engine, c *engine.Call) {
		c.Rules = &engine.Compiled{Name: c.Rules.Name, Mode: c.Rules.Mode, Dimensions: c.Rules.Dimensions,
			Limits: c.Rules.Limits, Joined: true, Calls: calls(c.Rules)}
		decide(e, c)
	}
}

// TestWrongTogether: the layer finds each fault of calls together.
func TestWrongTogether(t *testing.T) {
	c := DefaultConfig(nil)
	for name, fault := range map[string]func(e engine.Engine, c *engine.Call){
		"one by one": oneByOne,
		"without the last limit": changed(func(c *engine.Compiled, l *engine.Limit) {
			if l == &c.Limits[len(c.Limits)-1] {
				l.Max, l.Capacity = weir.MaxUnits, weir.MaxUnits
			}
		}),
		"histories of their own": changed(func(c *engine.Compiled, l *engine.Limit) { l.Policy = c.Name }),
		"without a charge": func(e engine.Engine, c *engine.Call) {
			c.Op = engine.Peek
			decide(e, c)
		},
		"blocks ignored": changed(func(_ *engine.Compiled, l *engine.Limit) { l.Block = 0 }),
		"one block of the whole": calledAs(func(c *engine.Compiled) [][]int {
			return [][]int{slices.Concat(c.Calls...)}
		}),
		"a block of every limit": calledAs(func(c *engine.Compiled) (calls [][]int) {
			for _, i := range slices.Concat(c.Calls...) {
				calls = append(calls, []int{i})
			}
			return calls
		}),
		"a peek begins a block": calledAs(func(c *engine.Compiled) [][]int {
			calls := slices.Clone(c.Calls)
			for i, l := range c.Limits {
				if l.Cost < 0 {
					calls = append(calls, []int{i})
				}
			}
			return calls
		}),
		"peeks are charged": changed(func(_ *engine.Compiled, l *engine.Limit) { l.Cost = max(l.Cost, 1) }),
		"peeks deny nothing": changed(func(_ *engine.Compiled, l *engine.Limit) {
			if l.Cost < 0 {
				l.MinInterval = 0
			}
		}),
		"a peek moves the newest attempt": func(e engine.Engine, c *engine.Call) {
			if decide(e, c); c.N > 0 && c.Result.Allowed {
				for _, l := range c.Rules.Limits {
					if l.Cost < 0 {
						l.Cost = 0
						one := &engine.Compiled{Name: l.Policy, Dimensions: c.Rules.Dimensions, Limits: []engine.Limit{l}}
						decide(e, &engine.Call{Rules: one, Key: c.Key, Op: engine.Record, N: 1, At: c.At, Given: c.Given})
						decide(e, &engine.Call{Rules: one, Key: c.Key, Op: engine.Refund, From: c.At, N: 1, At: c.At, Given: c.Given})
					}
				}
			}
		},
		"at a later instant": func(e engine.Engine, c *engine.Call) {
			c.At++
			decide(e, c)
		},
	} {
		if together(&joining{spec.New(), fault}, c) == "" {
			t.Errorf("%s: the model did not see it", name)
		}
	}
	for name, fault := range map[string]func(e engine.Engine, c *engine.Call){
		"one by one": oneByOne,
		"a look and a charge": func(e engine.Engine, c *engine.Call) {
			c.Op = engine.Peek
			if decide(e, c); c.Err != nil || !c.Result.Allowed {
				return
			}
			runtime.Gosched()
			c.Op = engine.Record
			decide(e, c)
		},
	} {
		if transfers(&joining{weir.NewMemory(), fault}, c) == "" {
			t.Errorf("%s: the audit did not see it", name)
		}
	}
}
