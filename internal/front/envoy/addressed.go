package envoy

import (
	"fmt"
	"math"
	"slices"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/observe"
)

// addressed is a policy that requests address as a domain.
type addressed struct {
	plan   *weir.Plan
	engine weir.Engine
	shown  []*shown       // of each limit
	narrow int            // the limit that counts by the most dimensions
	seen   observe.Policy // nil = nobody

	planBy string // the key of an entry that is no dimension and names a plan; "" = none
	varies bool   // some keys have other numbers than shown
}

// planned is an engine that knows plans of the policy.
type planned interface {
	// Under returns the engine for keys whose entry names that plan.
	Under(plan string) weir.Engine
}

// newAddressed makes a policy ready. A policy that grants in part is asked for all
// or nothing: the protocol has no word for a part.
func newAddressed(p Policy) (*addressed, error) {
	a := &addressed{plan: p.Plan, engine: p.Engine, seen: p.Observer, varies: p.Varies}
	if _, ok := p.Engine.(planned); ok && !slices.Contains(p.Plan.Dimensions(), p.PlanBy) {
		a.planBy = p.PlanBy
	}
	policy := p.Plan.Policy()
	if policy.Mode == weir.Partial {
		policy.Mode = weir.AllOrNothing
		var err error
		if a.plan, err = policy.Plan(); err != nil {
			return nil, err
		}
	}
	for i, l := range policy.Limits {
		a.shown = append(a.shown, express(&l))
		if len(l.By) > len(policy.Limits[a.narrow].By) {
			a.narrow = i
		}
	}
	return a, nil
}

// showing is how a limit is shown, with the numbers it has for a key.
func (a *addressed) showing(i int, st *weir.LimitState) *shown {
	l := a.plan.Limits()[i]
	if st.Name == "" || st.Max == l.Max && st.Window.Microseconds() == l.Window {
		return a.shown[i]
	}
	return express(&weir.Limit{Name: st.Name, Max: st.Max, Window: st.Window})
}

// express says a limit in the words of the protocol, as well as they can.
func express(l *weir.Limit) *shown {
	unit, n := envoyconf.Express(l.Window)
	says := &pb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(min(l.Max, math.MaxUint32)),
		Unit: pb.RateLimitResponse_RateLimit_Unit(unit), Name: l.Name}
	if n > 1 {
		says.UnitMultiplier = wrapperspb.UInt32(n)
	}
	return show(says)
}

// address finds the policy's key of a descriptor's entries and the engine that
// decides it, which is another one where an entry names a plan.
func (a *addressed) address(it *item, entries []envoyconf.Entry) (err error) {
	it.engine = a.engine
	if a.planBy != "" {
		for i, e := range entries {
			if e.Key == a.planBy {
				it.engine = a.engine.(planned).Under(e.Value)
				entries = slices.Delete(slices.Clone(entries), i, i+1)
				break
			}
		}
	}
	it.key, err = a.key(entries)
	return err
}

// key builds the policy's key of a descriptor's entries, whose keys are its
// dimensions. A policy that counts all callers together has none; since a descriptor
// must have an entry, any will do.
func (a *addressed) key(entries []envoyconf.Entry) (weir.Key, error) {
	dims := a.plan.Dimensions()
	if len(dims) == 0 {
		return weir.K(), nil
	}
	var few [4]string
	values := few[:0]
	for _, dim := range dims {
		for i := range entries {
			if entries[i].Key == dim && len(entries[i].Value) <= weir.MaxValueBytes {
				values = append(values, entries[i].Value)
				break
			}
		}
	}
	if len(values) == len(dims) && len(entries) == len(dims) {
		return weir.K(values...), nil
	}
	return a.explain(entries)
}

// explain says what keeps entries from being a key.
func (a *addressed) explain(entries []envoyconf.Entry) (k weir.Key, err error) {
	named := make(map[string]string, len(entries))
	for _, e := range entries {
		if _, twice := named[e.Key]; twice {
			return k, badInput("entries: the key %q is given twice; give it once", e.Key)
		}
		named[e.Key] = e.Value
	}
	if k, err = a.plan.Key(named); err != nil {
		err = fmt.Errorf("entries: %w", err)
	}
	return k, err
}
