package envoyconf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Changes describes the differences between two configurations, a phrase for each descriptor, such
// as "shop.user: 5 per minute → 50 per minute". Descriptors are named as in metrics. It returns
// none if both decide alike. A nil Config has no descriptors.
func Changes(before, after *Config) []string {
	var c comparison
	if after != nil {
		for _, d := range after.Domains {
			c.compare(d.Name, before.root(d.Name), &d.root)
		}
	}
	if before != nil {
		for _, d := range before.Domains {
			if after.Domain(d.Name) == nil {
				c.compare(d.Name, &d.root, nil)
			}
		}
	}
	return c.changes
}

// root returns the node above the descriptors of a domain, nil if there is no such domain.
func (c *Config) root(domain string) *node {
	if d := c.Domain(domain); d != nil {
		return &d.root
	}
	return nil
}

// comparison collects phrases about differences.
type comparison struct{ changes []string }

func (c *comparison) add(format string, args ...any) {
	c.changes = append(c.changes, fmt.Sprintf(format, args...))
}

// compare adds the differences below two nodes of one name, in the order of their keys and values.
// A nil node has nothing below it.
func (c *comparison) compare(name string, before, after *node) {
	old, new := before.below(), after.below()
	all := maps.Clone(old)
	maps.Copy(all, new)
	for _, e := range slices.SortedFunc(maps.Keys(all), compareEntries) {
		here := name + "." + label(e)
		was, now := old[e], new[e]
		switch {
		case was == nil:
			c.add("%s: added, %s", here, now.text())
		case now == nil:
			c.add("%s: removed, %s", here, was.text())
		case was.text() != now.text():
			c.add("%s: %s → %s", here, was.text(), now.text())
		}
		c.compare(here, was, now)
	}
	if was, now := before.order(), after.order(); was != "" && now != "" && was != now {
		c.add("%s: wildcards in the order %s → %s", name, was, now)
	}
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
}

// label returns the name of a descriptor in metrics.
func label(e Entry) string {
	if e.Value == "" {
		return e.Name
	}
	return e.Name + "_" + e.Value
}

// below returns the nodes below n by their keys and values.
func (n *node) below() map[Entry]*node {
	if n == nil || n.exact == nil {
		return map[Entry]*node{}
	}
	return n.exact
}

// order returns the wildcards below n in the order in which they are tried, "" for fewer than two.
func (n *node) order() string {
	if n == nil || len(n.wild) < 2 {
		return ""
	}
	labels := make([]string, len(n.wild))
	for i, w := range n.wild {
		labels[i] = label(Entry{Name: strings.Join(w.key, "*"), Value: strings.Join(w.value, "*")})
	}
	return strings.Join(labels, ", ")
}

// text returns the rule of a descriptor in words.
func (n *node) text() string {
	r := n.rule
	if r == nil {
		return "no limit"
	}
	words := []string{"unlimited"}
	if !r.Unlimited {
		unit := strings.ToLower(r.Unit.String())
		if r.Multiplier > 0 {
			unit = fmt.Sprintf("%d × %s", r.Multiplier, unit)
		}
		words[0] = fmt.Sprintf("%d per %s", r.Requests, unit)
	}
	add := func(word string, applies bool) {
		if applies {
			words = append(words, word)
		}
	}
	add("shadow_mode", r.Shadow)
	add("quota_mode", r.Quota)
	add("share_threshold", len(r.Varying) < len(r.Keys))
	add("name "+r.Name, r.Name != "")
	add("replaces "+strings.Join(r.Replaces, " and "), len(r.Replaces) > 0)
	return strings.Join(words, ", ")
}
