package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// Changes describes the differences between two files, a sentence for each policy or
// limit. Limits that start empty are first, the others in the order of the files. It returns
// none if both decide alike.
func Changes(before, after *File) []string {
	var all []string
	for _, p := range after.Policies {
		if old := before.Definition(p.Name); old == nil {
			all = append(all, "added "+p.Name)
		} else {
			all = append(all, old.changes(p)...)
		}
	}
	for _, p := range before.Policies {
		if after.Definition(p.Name) == nil {
			all = append(all, "removed "+p.Name)
		}
	}
	empty := func(change string) bool { return strings.HasSuffix(change, startsEmpty) }
	others := slices.DeleteFunc(slices.Clone(all), empty)
	return append(slices.DeleteFunc(all, func(c string) bool { return !empty(c) }), others...)
}

// startsEmpty ends the sentence about a limit of another kind than before (R12).
const startsEmpty = "; it starts empty, because its kind has changed"

// changes describes the differences between p and to.
func (p *Definition) changes(to *Definition) []string {
	var all []string
	for i, l := range to.Limits {
		name := p.Name + "." + l.Name
		switch j := p.limitNamed(l.Name); {
		case j < 0:
			all = append(all, fmt.Sprintf("added %s: %s", name, to.Sentence(i)))
		case p.Sentence(j) != to.Sentence(i):
			change := fmt.Sprintf("changed %s: %s, was %s", name, to.Sentence(i), p.Sentence(j))
			if p.Limits[j].Kind != l.Kind {
				change += startsEmpty
			}
			all = append(all, change)
		}
	}
	for _, l := range p.Limits {
		if to.limitNamed(l.Name) < 0 {
			all = append(all, "removed "+p.Name+"."+l.Name)
		}
	}
	rest := *p
	rest.Limits, rest.Units, rest.Blocks, rest.WarnPercents = to.Limits, to.Units, to.Blocks, to.WarnPercents
	switch {
	case !rest.same(to):
		all = append(all, "changed "+p.Name+" besides its limits")
	case len(all) == 0 && !p.same(to): // cells, a cost or a warning
		all = append(all, "changed the limits of "+p.Name)
	}
	return all
}

// limitNamed returns the index of the limit of that name, or -1.
func (p *Definition) limitNamed(name string) int {
	return slices.IndexFunc(p.Limits, func(l weir.Limit) bool { return l.Name == name })
}

// same reports whether two policies differ at most in their lines of the file.
func (p *Definition) same(o *Definition) bool {
	return reflect.DeepEqual(p.withoutLines(), o.withoutLines())
}

// withoutLines returns p with all lines of the file set to 0.
func (p Definition) withoutLines() Definition {
	p.Line, p.file, p.Plans, p.Overrides = 0, "", slices.Clone(p.Plans), slices.Clone(p.Overrides)
	for i := range p.Plans {
		p.Plans[i].Line = 0
	}
	for i := range p.Overrides {
		p.Overrides[i].Line = 0
	}
	return p
}
