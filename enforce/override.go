package enforce

import (
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// overrideIndex finds the overrides that are for the same dimensions.
type overrideIndex struct {
	dimensions []int            // indices into the key's values, in order
	byValues   map[string][]int // the values, each behind its length; to overrides in the order of the file
}

// indexed makes an index for each set of dimensions that overrides are for.
func indexed(overrides []policy.Override, dimensions []string) []overrideIndex {
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

// append appends the values of the key that the overrides are for.
func (x *overrideIndex) append(b []byte, key *weir.Key) []byte {
	for _, i := range x.dimensions {
		b = keyenc.Append(b, key.Value(i))
	}
	return b
}

// overrideOf returns the first override in the order of the file that is for the
// key and has not expired, or None.
func (r *Rule) overrideOf(key *weir.Key, at int64) int {
	first := None
	var space [128]byte
	for i := range r.overrides {
		x := &r.overrides[i]
		for _, o := range x.byValues[string(x.append(space[:0], key))] {
			if first != None && o > first {
				break
			}
			if end := r.Policy.Overrides[o].Until; end.IsZero() || instant(at).Before(end) {
				first = o
				break
			}
		}
	}
	return first
}
