package policy

import (
	"cmp"
	"slices"
	"time"
)

// Override sets other limits for some keys, until an instant and for a reason.
type Override struct {
	For     []Dimension // it applies to keys with all of these values; at least one
	Tier    string      // the plan that applies; "" = the plan that the request selects
	Changes []Change    // on top of the plan
	Until   time.Time   // the first instant at which it no longer applies; zero = it does not end
	Why     string      // the reason, for people; never ""
	Line    int         // its first line in the file
}

// Dimension is a named value of a key.
type Dimension struct{ Name, Value string }

// AppliesAt reports whether the override has not expired at an instant.
func (o *Override) AppliesAt(t time.Time) bool { return o.Until.IsZero() || t.Before(o.Until) }

// Expired returns the policy's overrides that no longer apply at an instant.
func (p *Policy) Expired(at time.Time) []*Override {
	var all []*Override
	for i := range p.Overrides {
		if o := &p.Overrides[i]; !o.AppliesAt(at) {
			all = append(all, o)
		}
	}
	return all
}

// sortedFor returns For in the order of the names.
func (o *Override) sortedFor() []Dimension {
	return slices.SortedFunc(slices.Values(o.For), func(a, b Dimension) int { return cmp.Compare(a.Name, b.Name) })
}
