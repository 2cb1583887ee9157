package enforce

import (
	"fmt"
	"maps"

	"github.com/weirlimit/weir"
)

// Subject is whom a decision is about.
type Target struct {
	Key  weir.Key
	Tier int // from PlanOf
}

// Values is a key by the names of its dimensions, each of them once, with the value
// of PlanBy if there is one. It is no interface, so that what the functions close
// over stays on the stack.
type Lookup struct {
	Count int // how many there are
	Value func(name string) (value string, ok bool)
	Map   func() map[string]string // for messages
}

// Subject puts values in the order of the policy's dimensions. Every dimension
// must be given; besides, only the value of PlanBy may be. The error wraps
// weir.ErrKey and names what is missing or unknown (R14).
func (r *Rule) Target(values Lookup) (Target, error) {
	var few [4]string
	ordered := few[:0]
	for _, name := range r.dimensions {
		v, ok := values.Value(name)
		if !ok {
			return r.slowly(values.Map())
		}
		ordered = append(ordered, v)
	}
	s, expected := Target{Tier: None}, len(r.dimensions)
	if r.TierBy != "" {
		if v, ok := values.Value(r.TierBy); ok {
			if len(v) > weir.MaxValueBytes {
				return r.slowly(values.Map())
			}
			s.Tier = r.TierOf(v)
			if r.planAt < 0 {
				expected++
			}
		}
	}
	if values.Count != expected {
		return r.slowly(values.Map())
	}
	s.Key = weir.K(ordered...)
	return s, nil
}

// SubjectOfKey is whom a key that has its dimensions in order is about. plan is what
// PlanOf returned, or None; where a dimension names the plan, that one does.
func (r *Rule) TargetOfKey(key weir.Key, plan int) Target {
	if r.TierBy != "" && r.planAt >= 0 && r.planAt < key.Len() {
		plan = r.TierOf(key.Value(r.planAt))
	}
	return Target{Key: key, Tier: plan}
}

// SubjectOf is Subject of a map.
func (r *Rule) TargetOf(values map[string]string) (Target, error) { return r.slowly(values) }

// slowly finds out what is wrong with the values, if anything is.
func (r *Rule) slowly(values map[string]string) (Target, error) {
	s := Target{Tier: None}
	if v, ok := values[r.TierBy]; ok && r.TierBy != "" {
		s.Tier = r.TierOf(v)
		if r.planAt < 0 {
			if len(v) > weir.MaxValueBytes {
				return s, fmt.Errorf("%w: the value of %q is %d bytes long; at most %d are allowed", weir.ErrKey, r.TierBy, len(v), weir.MaxValueBytes)
			}
			values = maps.Clone(values)
			delete(values, r.TierBy)
		}
	}
	var err error
	s.Key, err = r.Base().Limiter.Plan().Key(values)
	return s, err
}
