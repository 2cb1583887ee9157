package policy

import (
	"cmp"
	"slices"
	"time"
)

// Override is what some keys get in place of the policy's limits, until an
// instant and for a reason.
type Override struct {
	For     []Dimension // whom it is for: keys that hold these values; at least one
	Tier    string      // the plan they get, "" when they keep the one they have
	Changes []Change    // on top of that
	Until   time.Time   // from here on it no longer applies; zero = it stays
	Why     string      // for people; never ""
	Line    int         // where it begins in the file
}

// Dimension is a value of a key, with its name.
type Dimension struct{ Name, Value string }

// AppliesAt reports whether the override has not expired at an instant.
func (o *Override) AppliesAt(t time.Time) bool { return o.Until.IsZero() || t.Before(o.Until) }

// Expired are the policy's overrides that no longer apply at an instant.
func (p *Policy) Expired(at time.Time) []*Override {
	var all []*Override
	for i := range p.Overrides {
		if o := &p.Overrides[i]; !o.AppliesAt(at) {
			all = append(all, o)
		}
	}
	return all
}

// sortedFor returns whom the override is for, in the order of the names.
func (o *Override) sortedFor() []Dimension {
	return slices.SortedFunc(slices.Values(o.For), func(a, b Dimension) int { return cmp.Compare(a.Name, b.Name) })
}
