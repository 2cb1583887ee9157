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

// policyDomain is a policy that requests name as a domain.
type policyDomain struct {
	plan     *weir.Plan
	engine   weir.Engine
	shown    []*shownLimit  // of each limit
	narrow   int            // index of the limit with the most dimensions
	observer observe.Policy // nil = none

	tierBy string // key of the entry, not a dimension, that chooses a plan; "" = none
	varies bool   // some keys have other numbers than shown
}

// tiered is an engine with several plans of the policy.
type tiered interface {
	// Under returns the engine for the plan that an entry's value names.
	Under(plan string) weir.Engine
}

// newPolicyDomain compiles a policy. The mode partial becomes all or nothing: the
// protocol has no partial grants.
func newPolicyDomain(p Policy) (*policyDomain, error) {
	d := &policyDomain{plan: p.Plan, engine: p.Engine, observer: p.Observer, varies: p.Varies}
	if _, ok := p.Engine.(tiered); ok && !slices.Contains(p.Plan.Dimensions(), p.TierBy) {
		d.tierBy = p.TierBy
	}
	policy := p.Plan.Policy()
	if policy.Mode == weir.Partial {
		policy.Mode = weir.AllOrNothing
		var err error
		if d.plan, err = policy.Plan(); err != nil {
			return nil, err
		}
	}
	for i, l := range policy.Limits {
		d.shown = append(d.shown, toShownLimit(&l))
		if len(l.By) > len(policy.Limits[d.narrow].By) {
			d.narrow = i
		}
	}
	return d, nil
}

// shownLimit returns limit i as answers show it, with the numbers of st.
func (d *policyDomain) shownLimit(i int, st *weir.LimitState) *shownLimit {
	l := d.plan.Limits()[i]
	if st.Name == "" || st.Max == l.Max && st.Window.Microseconds() == l.Window {
		return d.shown[i]
	}
	return toShownLimit(&weir.Limit{Name: st.Name, Max: st.Max, Window: st.Window})
}

// toShownLimit converts a limit to the nearest one that the protocol can express.
func toShownLimit(l *weir.Limit) *shownLimit {
	unit, n := envoyconf.Express(l.Window)
	m := &pb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(min(l.Max, math.MaxUint32)),
		Unit: pb.RateLimitResponse_RateLimit_Unit(unit), Name: l.Name}
	if n > 1 {
		m.UnitMultiplier = wrapperspb.UInt32(n)
	}
	return newShownLimit(m)
}

// resolve sets the item's key and engine. An entry that names a plan selects another
// engine and is not part of the key.
func (d *policyDomain) resolve(it *item, entries []envoyconf.Entry) (err error) {
	it.engine = d.engine
	if d.tierBy != "" {
		for i, e := range entries {
			if e.Key == d.tierBy {
				it.engine = d.engine.(tiered).Under(e.Value)
				entries = slices.Delete(slices.Clone(entries), i, i+1)
				break
			}
		}
	}
	it.key, err = d.key(entries)
	return err
}

// key builds the policy's key from entries, with its dimensions as keys. A policy without
// dimensions accepts any entries, since a descriptor must have one.
func (d *policyDomain) key(entries []envoyconf.Entry) (weir.Key, error) {
	dims := d.plan.Dimensions()
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
	return d.explain(entries)
}

// explain returns the error of entries that are not a key.
func (d *policyDomain) explain(entries []envoyconf.Entry) (k weir.Key, err error) {
	named := make(map[string]string, len(entries))
	for _, e := range entries {
		if _, twice := named[e.Key]; twice {
			return k, badInput("entries: the key %q is given twice; give it once", e.Key)
		}
		named[e.Key] = e.Value
	}
	if k, err = d.plan.Key(named); err != nil {
		err = fmt.Errorf("entries: %w", err)
	}
	return k, err
}
