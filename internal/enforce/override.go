package enforce

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// overrideIndex finds the overrides that name one set of dimensions. If they name networks, all
// name them in the same dimension.
type overrideIndex struct {
	dimensions []int            // indexes of the key's values, ascending
	network    int              // the dimension with networks as values; -1 for none
	bits       []int            // lengths of the prefixes of these networks
	byValues   map[string][]int // ranks, ascending, by the values, each behind its length
}

// indexOverrides sets the precedence of the overrides, and makes an index for each set of
// dimensions that they name. The longest prefix precedes, then the order of the file. An
// override for no address has the shortest prefix.
//
// The error is that of a Definition that a program has made; policy.Parse makes none with it.
func (r *Rule) indexOverrides() error {
	all := r.Definition.Overrides
	named := make([]namedValues, len(all))
	for i := range all {
		var problem string
		if named[i], problem = r.valuesOf(all[i].For); problem != "" {
			problem = fmt.Sprintf("%d %s", i, problem)
			return &weir.PolicyError{Policy: r.Name, Field: "Overrides", Problem: problem}
		}
		r.byRank = append(r.byRank, i)
	}
	slices.SortStableFunc(r.byRank, func(a, b int) int {
		return cmp.Compare(named[a].free, named[b].free)
	})
	for rank, i := range r.byRank {
		r.indexOverride(rank, &named[i])
	}
	return nil
}

// namedValues is the values that an override names.
type namedValues struct {
	dimensions []int // as those of overrideIndex
	key        weir.Key
	network    int // as that of overrideIndex
	prefix     netip.Prefix
	free       int // clientaddr.Range.Free of its network or client; math.MaxInt for no address
}

// valuesOf returns the values that an override names, dimensions of the policy, or the problem of one.
func (r *Rule) valuesOf(all []policy.Dimension) (v namedValues, problem string) {
	v = namedValues{network: -1, free: math.MaxInt}
	values, one := make([]string, len(r.Compiled.Dimensions)), false
	for _, d := range all {
		i := slices.Index(r.Compiled.Dimensions, d.Name)
		v.dimensions = append(v.dimensions, i)
		values[i] = d.Value
		bits := r.addressBits(i)
		if bits == 0 {
			continue
		}
		named, err := clientaddr.ParseRange(d.Value, bits)
		switch {
		case err != nil:
			return v, fmt.Sprintf("is for %s %q, which %s", d.Name, d.Value, err)
		case named.One:
			values[i], one = named.Text(), true
		case v.network >= 0:
			return v, "is for two networks; name one, and each address of the other"
		default:
			v.network, v.prefix = i, named.Prefix
			v.free = named.Free()
		}
	}
	if one && v.network < 0 {
		v.free = 0
	}
	slices.Sort(v.dimensions)
	v.key = weir.K(values...)
	return v, ""
}

// indexOverride adds the override of a rank.
func (r *Rule) indexOverride(rank int, v *namedValues) {
	i := slices.IndexFunc(r.overrides, func(x overrideIndex) bool {
		return x.network == v.network && slices.Equal(x.dimensions, v.dimensions)
	})
	if i < 0 {
		i = len(r.overrides)
		r.overrides = append(r.overrides, overrideIndex{
			dimensions: v.dimensions,
			network:    v.network,
			byValues:   map[string][]int{},
		})
	}
	x := &r.overrides[i]
	if bits := v.prefix.Bits(); v.network >= 0 && !slices.Contains(x.bits, bits) {
		x.bits = append(x.bits, bits)
	}
	if v.network >= 0 {
		r.networks = append(r.networks, networkOf{v.network, v.prefix})
	}
	name := string(x.append(nil, &v.key, v.prefix))
	x.byValues[name] = append(x.byValues[name], rank)
}

// append appends the values of a key with the dimensions of the index, with a network in place
// of the value of its dimension.
func (x *overrideIndex) append(b []byte, key *weir.Key, network netip.Prefix) []byte {
	for _, i := range x.dimensions {
		if i != x.network {
			b = keyenc.Append(b, key.Value(i))
			continue
		}
		a := network.Addr().As16()
		b = append(b, a[:]...)
		b = append(b, byte(network.Addr().BitLen()), byte(network.Bits()))
	}
	return b
}

// networkOf is a network that an override names, of a dimension.
type networkOf struct {
	dimension int
	prefix    netip.Prefix
}

// Network returns the longest network of overrides that has the client with a counted form, of
// a dimension; the zero Prefix if there is none.
func (r *Rule) Network(dimension int, form string) (longest netip.Prefix) {
	if r.networks == nil {
		return longest
	}
	client := clientaddr.Known(form).Addr()
	for _, n := range r.networks {
		if n.dimension == dimension &&
			n.prefix.Contains(client) && n.prefix.Bits() > longest.Bits() {
			longest = n.prefix
		}
	}
	return longest
}

// overrideOf returns the index of the override that applies to a key at an instant: the first
// in the precedence that matches the key and has not expired; -1 for none.
func (r *Rule) overrideOf(key *weir.Key, at time.Time) int {
	first := len(r.byRank)
	var space [128]byte
	for i := range r.overrides {
		x := &r.overrides[i]
		if x.network < 0 {
			first = r.firstOf(x.byValues[string(x.append(space[:0], key, netip.Prefix{}))],
				first, at)
			continue
		}
		client := clientaddr.Known(key.Value(x.network))
		for _, bits := range x.bits {
			if bits > client.Bits() {
				continue
			}
			if network, err := client.Addr().Prefix(bits); err == nil {
				first = r.firstOf(x.byValues[string(x.append(space[:0], key, network))], first, at)
			}
		}
	}
	if first == len(r.byRank) {
		return -1
	}
	return r.byRank[first]
}

// firstOf returns the lowest of some ranks that has an override in force, or before if that is
// lower.
func (r *Rule) firstOf(ranks []int, before int, at time.Time) int {
	for _, rank := range ranks {
		if rank >= before {
			break
		}
		if end := r.Definition.Overrides[r.byRank[rank]].Until; end.IsZero() ||
			instant(at).Before(end) {
			return rank
		}
	}
	return before
}
