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

// withLimits returns the rules with changed limits.
func withLimits(c *engine.Compiled, change func(limits []engine.Limit)) *engine.Compiled {
	limits := slices.Clone(c.Limits)
	change(limits)
	return &engine.Compiled{Name: c.Name, Mode: c.Mode, Dimensions: c.Dimensions, Limits: limits}
}

// TestWrongTogether: the layer finds each fault of calls together.
func TestWrongTogether(t *testing.T) {
	c := DefaultConfig(nil)
	for name, fault := range map[string]func(e engine.Engine, c *engine.Call){
		"one by one": oneByOne,
		"without the last limit": func(e engine.Engine, c *engine.Call) {
			c.Rules = withLimits(c.Rules, func(limits []engine.Limit) {
				last := &limits[len(limits)-1]
				last.Max, last.Capacity = weir.MaxUnits, weir.MaxUnits
			})
			decide(e, c)
		},
		"histories of their own": func(e engine.Engine, c *engine.Call) {
			c.Rules = withLimits(c.Rules, func(limits []engine.Limit) {
				for i := range limits {
					limits[i].Policy = c.Rules.Name
				}
			})
			decide(e, c)
		},
		"without a charge": func(e engine.Engine, c *engine.Call) {
			c.Op = engine.Peek
			decide(e, c)
		},
		"peeks are charged": func(e engine.Engine, c *engine.Call) {
			c.Rules = withLimits(c.Rules, func(limits []engine.Limit) {
				for i := range limits {
					limits[i].Cost = max(limits[i].Cost, 1)
				}
			})
			decide(e, c)
		},
		"peeks deny nothing": func(e engine.Engine, c *engine.Call) {
			c.Rules = withLimits(c.Rules, func(limits []engine.Limit) {
				for i := range limits {
					if limits[i].Cost < 0 {
						limits[i].MinInterval = 0
					}
				}
			})
			decide(e, c)
		},
		"a peek moves the newest attempt": func(e engine.Engine, c *engine.Call) {
			peeks := withLimits(c.Rules, func(limits []engine.Limit) {
				for i := range limits {
					limits[i].Cost = max(limits[i].Cost, 0)
				}
			})
			if decide(e, c); c.N > 0 && c.Result.Allowed {
				for i := range peeks.Limits {
					if peeks.Limits[i].Cost == 0 {
						one := only(peeks, i)
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
