package conformance

import (
	"context"
	"runtime"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spec"
)

// joining is an engine with a fault in the decisions about several calls.
type joining struct {
	weir.Engine
	fault func(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error)
}

func (j joining) Decide(ctx context.Context, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
	if p.Together() {
		return j.fault(j.Engine, p, k, r)
	}
	return j.Engine.Decide(ctx, p, k, r)
}

// oneByOne decides the limits of calls one after the other, until one denies.
func oneByOne(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (d weir.Decision, err error) {
	for i, l := range p.Limits() {
		policy := weir.Policy{Name: l.Policy, Limits: p.Policy().Limits[i : i+1]}
		one, err := policy.Plan()
		mustBeValid(err)
		var own []string
		for _, dim := range l.By {
			own = append(own, k.Value(dim))
		}
		if d, err = e.Decide(context.Background(), one, weir.K(own...), weir.Request{N: r.N, At: r.At, States: r.States[i : i+1]}); err != nil || !d.Allowed {
			return d, err
		}
		runtime.Gosched()
	}
	return d, err
}

// TestWrongTogether: the layer finds each fault of calls together, and none in the
// specification and in the memory engine.
func TestWrongTogether(t *testing.T) {
	ctx, c := context.Background(), DefaultConfig(nil)
	for _, e := range []weir.Engine{spec.New(), weir.NewMemory()} {
		if report := together(e, c) + transfers(e, c); report != "" {
			t.Errorf("%T: %s", e, report)
		}
	}
	for name, fault := range map[string]func(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error){
		"one by one": oneByOne,
		"without the last limit": func(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
			limits := p.Policy().Limits
			limits[len(limits)-1].Max = weir.MaxUnits
			p, err := p.WithLimits(limits)
			if err != nil {
				return weir.Decision{}, err
			}
			return e.Decide(ctx, p, k, r)
		},
		"histories of their own": func(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
			for i := range p.Limits() {
				p.Limits()[i].Policy = p.Name()
			}
			return e.Decide(ctx, p, k, r)
		},
		"without a charge": func(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
			r.Op = weir.OpPeek
			return e.Decide(ctx, p, k, r)
		},
		"at a later instant": func(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
			r.At = r.At.Add(us)
			return e.Decide(ctx, p, k, r)
		},
	} {
		if together(joining{spec.New(), fault}, c) == "" {
			t.Errorf("%s: the model did not see it", name)
		}
	}
	for name, fault := range map[string]func(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error){
		"one by one": oneByOne,
		"a look and a charge": func(e weir.Engine, p *weir.Plan, k weir.Key, r weir.Request) (weir.Decision, error) {
			r.Op = weir.OpPeek
			if d, err := e.Decide(ctx, p, k, r); err != nil || !d.Allowed {
				return d, err
			}
			runtime.Gosched()
			r.Op = weir.OpRecord
			return e.Decide(ctx, p, k, r)
		},
	} {
		if transfers(joining{weir.NewMemory(), fault}, c) == "" {
			t.Errorf("%s: the audit did not see it", name)
		}
	}
}
