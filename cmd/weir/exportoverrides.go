package main

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/clientaddr"
)

// exportOverrides returns a list of overrides for each policy, to be copied to the policy file.
func exportOverrides(all []httpapi.Override, policies *httpapi.PolicyList) string {
	var b strings.Builder
	byPolicy := map[string][]httpapi.Override{}
	var left []httpapi.Override
	for _, o := range all {
		switch {
		case o.Source != "store":
		case o.NotApplied != "":
			left = append(left, o)
		default:
			byPolicy[o.Policy] = append(byPolicy[o.Policy], o)
		}
	}
	for _, o := range left {
		fmt.Fprintf(&b, "# left out: %s %s: %s\n", o.Policy, keyOfOverride(o.Key), o.NotApplied)
	}
	if len(byPolicy) == 0 {
		b.WriteString("# the store has no overrides that apply\n")
		return b.String()
	}
	b.WriteString("# move each list to its policy in the file, above the overrides that are there\n")
	b.WriteString("policies:\n")
	for _, name := range sortedNames(byPolicy) {
		var addresses map[string]int
		for _, p := range policies.Policies {
			if p.Name == name {
				addresses = p.Addresses
			}
		}
		fmt.Fprintf(&b, "  %s:\n    overrides:\n", name)
		newExport(byPolicy[name], addresses).write(&b)
	}
	return b.String()
}

// export is the overrides of one policy.
//
// Of the store's overrides, the first one for each limit applies. In a policy file an item is for
// all limits of its key, and the first item that has not expired applies alone. So an item also has
// the limits of the overrides for more keys, and there is one for each end.
type export struct {
	keys   []*exportedKey // in their precedence
	groups []*exportGroup
}

// exportedKey is a key with its overrides.
type exportedKey struct {
	key     map[string]string
	names   []string // of its values, sorted
	network string   // the name of the value that is a network; "" = none
	free    int      // clientaddr.Range.Free of its network or address; math.MaxInt without one
	own     []httpapi.Override

	addresses map[string]netip.Prefix // by the names of values that are addresses or networks
}

// exportGroup holds the keys with values of the same names.
type exportGroup struct {
	names    []string
	plain    map[string]*exportedKey // keys without a network, by their text
	networks []*exportedKey
}

// newExport returns the overrides of a policy. addresses has its dimensions that hold addresses.
func newExport(all []httpapi.Override, addresses map[string]int) *export {
	e := &export{}
	byText := map[string]*exportedKey{}
	for _, o := range all {
		text := keyOfOverride(o.Key)
		k := byText[text]
		if k == nil {
			k = newExportedKey(o.Key, addresses)
			byText[text] = k
			e.keys = append(e.keys, k)
			e.group(k.names).add(text, k)
		}
		k.own = append(k.own, o)
	}
	for _, k := range e.keys {
		slices.SortFunc(k.own, newestFirst)
	}
	slices.SortFunc(e.keys, exportPrecedence)
	return e
}

// newExportedKey returns a key without overrides.
func newExportedKey(key map[string]string, addresses map[string]int) *exportedKey {
	k := &exportedKey{
		key:       key,
		names:     sortedNames(key),
		free:      math.MaxInt,
		addresses: map[string]netip.Prefix{},
	}
	for _, name := range k.names {
		bits := addresses[name]
		if bits == 0 {
			continue
		}
		r, err := clientaddr.ParseRange(key[name], bits)
		if err != nil {
			continue // weir lists none that is no address
		}
		k.addresses[name] = r.Prefix
		if !r.One {
			k.network = name
			k.free = r.Free()
		}
	}
	if k.network == "" && len(k.addresses) > 0 {
		k.free = 0
	}
	return k
}

// group returns the group of the names, which is made if need be.
func (e *export) group(names []string) *exportGroup {
	for _, g := range e.groups {
		if slices.Equal(g.names, names) {
			return g
		}
	}
	g := &exportGroup{names: names, plain: map[string]*exportedKey{}}
	e.groups = append(e.groups, g)
	return g
}

// add adds a key with its text.
func (g *exportGroup) add(text string, k *exportedKey) {
	if k.network != "" {
		g.networks = append(g.networks, k)
		return
	}
	g.plain[text] = k
}

// versionOf returns the version of an override, whose order is that of their changes.
func versionOf(o *httpapi.Override) int64 {
	version, _ := strconv.ParseInt(o.Version, 10, 64) // weir has written it
	return version
}

// newestFirst compares overrides by the instants of their changes.
func newestFirst(a, b httpapi.Override) int { return cmp.Compare(versionOf(&b), versionOf(&a)) }

// exportPrecedence compares keys as the store's precedence does: the longest prefix, the most
// values, the newest change.
func exportPrecedence(a, b *exportedKey) int {
	return cmp.Or(
		cmp.Compare(a.free, b.free),
		cmp.Compare(len(b.names), len(a.names)),
		newestFirst(a.own[0], b.own[0]),
	)
}

// covers reports whether all keys of other are keys of k, too.
func (k *exportedKey) covers(other *exportedKey) bool {
	for _, name := range k.names {
		value, isNamed := other.key[name]
		switch {
		case !isNamed:
			return false
		case name != k.network:
			if value != k.key[name] {
				return false
			}
		default:
			own, its := k.addresses[name], other.addresses[name]
			if own.Bits() > its.Bits() || !own.Contains(its.Addr()) {
				return false
			}
		}
	}
	return true
}

// covering returns the overrides that apply to all keys of k, in their precedence.
func (e *export) covering(k *exportedKey) (all []httpapi.Override) {
	var found []*exportedKey
	for _, g := range e.groups {
		projected := map[string]string{}
		for _, name := range g.names {
			if value, isNamed := k.key[name]; isNamed {
				projected[name] = value
			}
		}
		if len(projected) < len(g.names) {
			continue
		}
		if x := g.plain[keyOfOverride(projected)]; x != nil {
			found = append(found, x)
		}
		for _, x := range g.networks {
			if x.covers(k) {
				found = append(found, x)
			}
		}
	}
	slices.SortFunc(found, exportPrecedence)
	for _, x := range found {
		all = append(all, x.own...)
	}
	return all
}

// write writes the items.
func (e *export) write(b *strings.Builder) {
	e.writeNotes(b)
	for _, k := range e.keys {
		k.write(b, e.covering(k))
	}
}

// writeNotes writes a line for keys to which the overrides of two items may apply, none of which is
// for all keys of the other.
func (e *export) writeNotes(b *strings.Builder) {
	for i, g := range e.groups {
		for _, other := range e.groups[:i] {
			if g.mayCross(other) {
				fmt.Fprintf(b, "      # a key with the values of two items, one for %s and one "+
					"for %s, has the numbers of the first alone\n",
					strings.Join(g.names, " and "), strings.Join(other.names, " and "))
			}
		}
	}
}

// mayCross reports whether a key of g and one of other may have keys in common, and neither covers
// the other.
func (g *exportGroup) mayCross(other *exportGroup) bool {
	isSubset := func(a, b []string) bool {
		return !slices.ContainsFunc(a, func(name string) bool { return !slices.Contains(b, name) })
	}
	if isSubset(g.names, other.names) || isSubset(other.names, g.names) {
		return len(g.networks) > 0 && len(other.networks) > 0
	}
	return true
}

// endOfOverride returns the end of an override, for comparisons: digits sort before "forever".
func endOfOverride(o *httpapi.Override) string { return cmp.Or(o.Until, "forever") }

// write writes the items of a key, the earliest end first. all are the overrides for all of its
// keys, in their precedence.
func (k *exportedKey) write(b *strings.Builder, all []httpapi.Override) {
	last := ""
	for i := range k.own {
		last = max(last, endOfOverride(&k.own[i]))
	}
	var ends []string
	for i := range all {
		if end := endOfOverride(&all[i]); end <= last { // later the item for more keys has the rest
			ends = append(ends, end)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	for i, end := range ends {
		lasting := lastingUntil(all, end)
		if i+1 < len(ends) {
			next := lastingUntil(all, ends[i+1])
			if slices.Equal(versionsOf(lasting), versionsOf(next)) {
				continue // the next item has the same
			}
		}
		k.writeItem(b, lasting, end)
	}
}

// lastingUntil returns the first override of each limit that lasts until an end, sorted by limit.
func lastingUntil(all []httpapi.Override, end string) (lasting []httpapi.Override) {
	for _, o := range all {
		isKnown := slices.ContainsFunc(lasting,
			func(x httpapi.Override) bool { return x.Limit == o.Limit })
		if endOfOverride(&o) >= end && !isKnown {
			lasting = append(lasting, o)
		}
	}
	slices.SortFunc(lasting,
		func(a, b httpapi.Override) int { return cmp.Compare(a.Limit, b.Limit) })
	return lasting
}

// versionsOf returns the versions of overrides, which identify them.
func versionsOf(all []httpapi.Override) (versions []int64) {
	for i := range all {
		versions = append(versions, versionOf(&all[i]))
	}
	return versions
}

// writeItem writes an item with overrides that last until an instant.
func (k *exportedKey) writeItem(b *strings.Builder, all []httpapi.Override, until string) {
	var values, limits, reasons []string
	for _, name := range k.names {
		values = append(values, name+": "+strconv.Quote(k.key[name]))
	}
	for _, o := range all {
		limits = append(limits, o.Limit+": "+strconv.Quote(o.Sentence))
		reason := o.Reason + " (" + o.Author + ")"
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	fmt.Fprintf(b, "      - for: {%s}\n        limits: {%s}\n        until: %s\n        why: %s\n",
		strings.Join(values, ", "), strings.Join(limits, ", "), until,
		strconv.Quote(strings.Join(reasons, "; ")))
}
