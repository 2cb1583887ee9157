package enforce

import (
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// overrideIndex finds overrides that name the same dimensions.
type overrideIndex struct {
	dimensions []int            // indexes of the key's values, ascending
	byValues   map[string][]int // from the values, each after its length, to overrides in the order of the file
}

// indexOverrides returns an index for each set of dimensions that overrides name.
func indexOverrides(overrides []policy.Override, dimensions []string) []overrideIndex {
	var all []overrideIndex
	for i, o := range overrides {
		values := make([]string, len(dimensions))
		var at []int
		for _, d := range o.For {
			j := slices.Index(dimensions, d.Name)
			at, values[j] = append(at, j), d.Value
		}
		slices.Sort(at)
		k := slices.IndexFunc(all, func(x overrideIndex) bool { return slices.Equal(x.dimensions, at) })
		if k < 0 {
			k = len(all)
			all = append(all, overrideIndex{at, map[string][]int{}})
		}
		key := weir.K(values...)
		name := string(all[k].append(nil, &key))
		all[k].byValues[name] = append(all[k].byValues[name], i)
	}
	return all
}

// append appends the key's values of the index's dimensions.
func (x *overrideIndex) append(b []byte, key *weir.Key) []byte {
	for _, i := range x.dimensions {
		b = keyenc.Append(b, key.Value(i))
	}
	return b
}

// overrideOf returns the first override in the order of the file that matches the key
// and has not expired, counted from 1; 0 for none.
func (r *Rule) overrideOf(key *weir.Key, at time.Time) int {
	first := 0
	var space [128]byte
	for i := range r.overrides {
		x := &r.overrides[i]
		for _, o := range x.byValues[string(x.append(space[:0], key))] {
			if first != 0 && o >= first {
				break
			}
			if end := r.Definition.Overrides[o].Until; end.IsZero() || instant(at).Before(end) {
				first = o + 1
				break
			}
		}
	}
	return first
}
