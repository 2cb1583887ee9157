package envoy

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/calendar"
)

// Policy is a policy that requests name as a domain. The entries of a descriptor name
// its dimensions.
type Policy struct {
	Rule     *enforce.Rule // on the engine of the service
	Observer Observer      // receives every call; nil = none
}

// Observer receives the calls for a policy.
type Observer interface {
	observe.Policy                                  // each item of a decided request, unless the policy is a shadow
	Decided(r *enforce.Request, o *enforce.Outcome) // each decision, also a peek before a charge
	Refunded(t *enforce.Target, at, n int64)        // up to n units of the grant at an instant in microseconds since 1970, or engine.Oldest
}

// policyDomain is a policy as a domain.
type policyDomain struct {
	*enforce.Rule // in a mode without partial grants
	observer      Observer
	compiled      *engine.Compiled // of its own numbers
	planBy        string           // the key of the entry that chooses a plan and is no dimension; "" = none
	varies        bool             // some keys have other numbers
	shown         []*shownLimit    // of each limit
}

// newPolicyDomain compiles a policy. The mode partial becomes all or nothing: the
// protocol has no partial grants.
func newPolicyDomain(p Policy, e engine.Engine) (*policyDomain, error) {
	d := &policyDomain{Rule: p.Rule, observer: p.Observer, varies: len(p.Rule.Plans)+len(p.Rule.Overrides) > 0}
	if d.Mode == weir.Partial {
		whole := *d.Definition
		whole.Mode = weir.AllOrNothing
		var err error
		if d.Rule, err = enforce.NewRule(&whole, e); err != nil {
			return nil, err
		}
	}
	d.compiled = d.Base().Limiter.Compiled()
	if !slices.Contains(d.Dimensions(), d.PlanBy) {
		d.planBy = d.PlanBy
	}
	for i := range d.compiled.Limits {
		l := &d.compiled.Limits[i]
		st := l.Describe()
		d.shown = append(d.shown, toShownLimit(l.Period, &st))
	}
	return d, nil
}

// shownLimit returns limit i as answers show it, with the numbers of st.
func (d *policyDomain) shownLimit(i int, st *weir.LimitState) *shownLimit {
	l := &d.compiled.Limits[i]
	if st.Name == "" || st.Max == l.Max && (st.Window+st.MaxHold).Microseconds() == l.Window && (st.Burst == 0 || st.Burst == l.Capacity) {
		return d.shown[i]
	}
	return toShownLimit(l.Period, st)
}

// toShownLimit converts a limit, with the numbers of its state, to the nearest one that the protocol can express. Hits are
// held for the longest time of a concurrency limit, because the protocol has no
// settlement, so such a limit is one per window.
func toShownLimit(period *calendar.Windows, l *weir.LimitState) *shownLimit {
	if period != nil && period.Period == weir.Month {
		return newShownLimit(l.Name, uint32(min(l.Max, math.MaxUint32)), envoyconf.Month, 0)
	}
	hits, window := l.Max, l.Window+l.MaxHold // one of them is 0
	if l.Burst > l.Max {
		// The same rate, for as many hits as can remain.
		bucket := weir.Limit{Kind: l.Kind, Max: l.Max, Window: l.Window, Burst: l.Burst}
		hits, window = l.Burst, bucket.FillTime()
	}
	unit, n := envoyconf.Express(window)
	if n == 1 {
		n = 0
	}
	return newShownLimit(l.Name, uint32(min(hits, math.MaxUint32)), unit, n)
}

// resolve sets the item's target. An entry that names a plan is not part of the key.
func (d *policyDomain) resolve(it *item, entries []envoyconf.Entry) error {
	plan := enforce.None
	if d.planBy != "" {
		if i := slices.IndexFunc(entries, func(e envoyconf.Entry) bool { return e.Key == d.planBy }); i >= 0 {
			plan = d.PlanOf(entries[i].Value)
			entries = slices.Delete(slices.Clone(entries), i, i+1)
		}
	}
	key, err := d.key(entries)
	it.target = d.TargetOfKey(key, plan)
	return err
}

// key builds the policy's key from entries, with its dimensions as keys. A policy without
// dimensions accepts any entries, since a descriptor must have one.
func (d *policyDomain) key(entries []envoyconf.Entry) (weir.Key, error) {
	dims := d.compiled.Dimensions
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
	if k, err = d.compiled.Key(named); err != nil {
		err = fmt.Errorf("entries: %w", err)
	}
	return k, err
}
