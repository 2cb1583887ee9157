package enforce

import (
	"fmt"
	"maps"

	"github.com/weirlimit/weir"
)

// Target is the key that a request counts for, and the tier that its values select.
type Target struct {
	Key  weir.Key
	Tier int // from Rule.TierOf
}

// Lookup is a key by the names of its dimensions, each of them once, with the value of
// plan-by if the request has one. It is a struct and not an interface, so that the
// variables that the functions capture stay on the stack.
type Lookup struct {
	Count int // the number of values
	Value func(name string) (value string, ok bool)
	Map   func() map[string]string // for error messages
}

// TargetOf is [Rule.Target] of a map.
func (r *Rule) TargetOf(values Values) (Target, error) {
	return r.Target(Lookup{Count: len(values),
		Value: func(name string) (string, bool) { v, ok := values[name]; return v, ok },
		Map:   func() map[string]string { return values }})
}

// Target puts values in the order of the policy's dimensions. Every dimension must have
// a value; the only other value allowed is that of plan-by. The error wraps
// [weir.ErrKey] and names the missing or unknown dimension (R14).
func (r *Rule) Target(values Lookup) (Target, error) {
	var few [4]string
	ordered := few[:0]
	for _, name := range r.dimensions {
		v, ok := values.Value(name)
		if !ok {
			return Target{}, r.keyError(values.Map())
		}
		ordered = append(ordered, v)
	}
	t, expected := Target{Tier: None}, len(r.dimensions)
	if r.TierBy != "" {
		if v, ok := values.Value(r.TierBy); ok {
			if len(v) > weir.MaxValueBytes {
				return Target{}, r.keyError(values.Map())
			}
			t.Tier = r.TierOf(v)
			if r.tierAt < 0 {
				expected++
			}
		}
	}
	if values.Count != expected {
		return Target{}, r.keyError(values.Map())
	}
	t.Key = weir.K(ordered...)
	return t, nil
}

// keyError returns the reason why values do not match the policy's dimensions.
func (r *Rule) keyError(values map[string]string) error {
	if v, ok := values[r.TierBy]; ok && r.TierBy != "" && r.tierAt < 0 {
		if len(v) > weir.MaxValueBytes {
			return fmt.Errorf("%w: the value of %q is %d bytes long; at most %d are allowed", weir.ErrKey, r.TierBy, len(v), weir.MaxValueBytes)
		}
		values = maps.Clone(values)
		delete(values, r.TierBy)
	}
	_, err := r.Base().Limiter.Plan().Key(values)
	return err
}

// TargetOfKey returns the target of a key with its values in the order of the dimensions.
// tier is a result of [Rule.TierOf], or None. It is ignored if a dimension selects the tier.
func (r *Rule) TargetOfKey(key weir.Key, tier int) Target {
	if r.TierBy != "" && r.tierAt >= 0 && r.tierAt < key.Len() {
		tier = r.TierOf(key.Value(r.tierAt))
	}
	return Target{Key: key, Tier: tier}
}
