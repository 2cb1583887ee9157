package envoy

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/calendar"
)

// Policy is a policy that requests name as a domain. The entries of a descriptor name
// its dimensions.
type Policy struct {
	Compiled *engine.Compiled
	Engine   engine.Engine // decides the policy, in its outage mode
	PlanBy   string        // key of the entry that chooses a plan of the policy; "" = none
	Varies   bool          // some keys have other numbers than Compiled

	Observer observe.Policy // receives every call; nil = none
}

// policyDomain is a policy as a domain. It is decided all or nothing, and its PlanBy is no
// dimension.
type policyDomain struct {
	Policy
	shown  []*shownLimit // of each limit
	narrow int           // index of the limit with the most dimensions
}

// planned is an engine with several plans of the policy.
type planned interface {
	// Under returns the engine for the plan that an entry's value names.
	Under(plan string) engine.Engine
}

// newPolicyDomain compiles a policy. The mode partial becomes all or nothing: the
// protocol has no partial grants.
func newPolicyDomain(p Policy) *policyDomain {
	d := &policyDomain{Policy: p}
	if _, ok := p.Engine.(planned); !ok || slices.Contains(p.Compiled.Dimensions, p.PlanBy) {
		d.PlanBy = ""
	}
	if p.Compiled.Mode == weir.Partial {
		c := p.Compiled
		d.Compiled = engine.Compile(c.Name, weir.AllOrNothing, c.Dimensions, slices.Clone(c.Limits))
	}
	for i := range d.Compiled.Limits {
		l := &d.Compiled.Limits[i]
		st := l.Describe()
		d.shown = append(d.shown, toShownLimit(l.Period, &st))
		if len(l.By) > len(d.Compiled.Limits[d.narrow].By) {
			d.narrow = i
		}
	}
	return d
}

// shownLimit returns limit i as answers show it, with the numbers of st.
func (d *policyDomain) shownLimit(i int, st *weir.LimitState) *shownLimit {
	l := &d.Compiled.Limits[i]
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

// resolve sets the item's key and engine. An entry that names a plan selects another
// engine and is not part of the key.
func (d *policyDomain) resolve(it *item, entries []envoyconf.Entry) (err error) {
	it.engine = d.Engine
	if d.PlanBy != "" {
		for i, e := range entries {
			if e.Key == d.PlanBy {
				it.engine = d.Engine.(planned).Under(e.Value)
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
	dims := d.Compiled.Dimensions
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
	if k, err = d.Compiled.Key(named); err != nil {
		err = fmt.Errorf("entries: %w", err)
	}
	return k, err
}
