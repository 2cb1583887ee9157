// Package definition finds closed limits, expired overrides and probable mistakes in a policy of a
// file. weir validate and reloads report them.
package definition

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/policy"
)

// WarnAt returns the share of limit i, 1 … 100 percent, at which a grant carries a warning;
// 0 if none does. Plans and overrides change the limit's numbers, not the share.
func WarnAt(p *policy.Definition, i int) int {
	if p.WarnPercents == nil {
		return 0
	}
	return p.WarnPercents[i]
}

// Closed returns the limits that allow 0 units, also with each plan and override. They deny every
// attempt of a policy that is no shadow. A 0 is more often a mistake than a switch.
func Closed(p *policy.Definition) (names []string) {
	opened := map[int]bool{}
	open := func(changes []policy.Change) {
		for _, c := range changes {
			opened[c.Limit] = opened[c.Limit] || c.Max > 0
		}
	}
	for _, plan := range p.Plans {
		open(plan.Changes)
	}
	for _, o := range p.Overrides {
		open(o.Changes)
	}
	for i, l := range p.Limits {
		if l.Max == 0 && !opened[i] && !p.Shadow {
			names = append(names, l.Name)
		}
	}
	return names
}

// Expired returns the policy's overrides that no longer apply at an instant.
func Expired(p *policy.Definition, at time.Time) []*policy.Override {
	var all []*policy.Override
	for i := range p.Overrides {
		if o := &p.Overrides[i]; !o.Until.IsZero() && !at.Before(o.Until) {
			all = append(all, o)
		}
	}
	return all
}

// FormNotes returns sentences about keys that are probably addresses and have no form: the
// written forms of one address, and the addresses of one client, then have histories of
// their own.
func FormNotes(p *policy.Definition) (notes []string) {
	for _, name := range p.Dimensions() {
		if _, has := p.Addresses[name]; !has && clientaddr.IsName(name) {
			notes = append(notes, fmt.Sprintf("line %d: %s counts by %s as text, "+
				"so each IPv6 address and each written form has a history of its own; "+
				"add keys: {%[3]s: address}", p.Line, p.Name, name))
		}
	}
	for i := range p.Overrides {
		o := &p.Overrides[i]
		for _, d := range o.For {
			if _, has := p.Addresses[d.Name]; has || !clientaddr.IsNetwork(d.Value) {
				continue
			}
			note := fmt.Sprintf("line %d: the override of %s for %s: %s matches that very text only; "+
				"for the addresses of the network add keys: {%[3]s: address}",
				o.Line, p.Name, d.Name, shorten.Quoted(d.Value))
			notes = append(notes, note)
		}
	}
	return notes
}
