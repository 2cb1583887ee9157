package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/dims"
)

// mutablePolicy is a policy with numbers that change while its histories stay (R12).
type mutablePolicy struct {
	name   string
	mode   weir.Mode
	limits []weir.Limit // all declared limits
	order  []string     // names of the limits in use, in this order
}

// current returns the limits in use with their present numbers.
func (b *mutablePolicy) current() (limits []weir.Limit) {
	for _, name := range b.order {
		limits = append(limits, b.limits[b.index(name)])
	}
	return limits
}

// policy returns the policy with its present numbers, its name after prefix. In vectors the
// window of Concurrency is its MaxHold, so that a change of the kind changes one word.
func (b *mutablePolicy) policy(prefix string) weir.Policy {
	p := weir.Policy{Name: prefix + b.name, Mode: b.mode, Limits: b.current()}
	for i := range p.Limits {
		if l := &p.Limits[i]; l.Kind == weir.KindConcurrency {
			l.Window, l.MaxHold = 0, l.Window
		}
	}
	p.Dimensions = dims.Of(p.Limits...)
	return p
}

// buckets reports whether a limit is a bucket: the next attempt stores a change of its rate
// (R12).
func (b *mutablePolicy) buckets() bool {
	return slices.ContainsFunc(b.limits, func(l weir.Limit) bool { return l.Kind == weir.KindBucket })
}

// index returns the index of the declared limit of that name, or -1.
func (b *mutablePolicy) index(name string) int {
	return slices.IndexFunc(b.limits, func(l weir.Limit) bool { return l.Name == name })
}

// add appends a limit, which is in use.
func (b *mutablePolicy) add(limit weir.Limit) {
	b.limits = append(b.limits, limit)
	b.order = append(b.order, limit.Name)
}

// clone returns a copy that can be changed without changing b.
func (b *mutablePolicy) clone() *mutablePolicy {
	c := *b
	c.limits = slices.Clone(b.limits)
	c.order = slices.Clone(b.order)
	return &c
}

// declare adds a limit: NAME max=N window=D [interval=D] [cells=N] [cost=N] [kind=K] [burst=N]
// [period=P] [zone=Z] [anchor=N] [block=D] [by=DIM,DIM].
func (b *mutablePolicy) declare(words []string) error {
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return fmt.Errorf("a limit begins with its name: limit NAME max=N window=D")
	}
	if b.index(words[0]) >= 0 || words[0] == "order" {
		return fmt.Errorf("the limit's name %q is taken", words[0])
	}
	b.add(weir.Limit{Name: words[0]})
	return b.set(words)
}

// change applies the words of a change line: mode=M, order NAME…, or NAME and the new
// fields of the limit.
func (b *mutablePolicy) change(words []string) error {
	switch {
	case len(words) == 0:
		return fmt.Errorf("a change needs mode=M, order NAME…, or NAME field=value…")
	case strings.HasPrefix(words[0], "mode="):
		return readAll(words, b.fields(), nil)
	case words[0] == "order":
		for _, name := range words[1:] {
			if b.index(name) < 0 {
				return fmt.Errorf("no limit is named %q", name)
			}
		}
		b.order = slices.Clone(words[1:])
		return nil
	}
	return b.set(words)
}

// fields returns the fields of the policy after its name.
func (b *mutablePolicy) fields() []field { return []field{{"mode", &b.mode}} }

// set assigns the fields in words[1:] to the limit named words[0].
func (b *mutablePolicy) set(words []string) error {
	i := b.index(words[0])
	if i < 0 {
		return fmt.Errorf("no limit is named %q", words[0])
	}
	must, may := limitFields(&b.limits[i])
	fields := append(must, may...)
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		j := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if j < 0 {
			return fmt.Errorf("unknown word %q; a limit has max, window, interval, cells, cost, kind, burst, period, zone, anchor, block and by", word)
		}
		if err := fields[j].read(value); err != nil {
			return err
		}
	}
	return nil
}

// limitFields returns the fields of a limit after its name: those of every limit, and
// those that are left out if they are zero.
func limitFields(l *weir.Limit) (must, may []field) {
	return []field{{"max", &l.Max}, {"window", &l.Window}},
		[]field{{"interval", &l.MinInterval}, {"cells", &l.Cells}, {"cost", &l.Cost}, {"kind", &l.Kind},
			{"burst", &l.Burst}, {"period", &l.Period}, {"zone", &l.Zone}, {"anchor", &l.Anchor},
			{"block", &l.Block}, {"by", &l.By}}
}

// limitText formats a limit as in a vector.
func limitText(limit weir.Limit) string { return "limit " + limit.Name + texts(limitFields(&limit)) }

// policies are the policies of a vector after some of its steps.
type policies struct {
	all     []*mutablePolicy
	current *mutablePolicy // the policy of the next step
}

func newPolicies(v *vector) policies {
	var p policies
	for _, b := range v.policies {
		p.all = append(p.all, b.clone())
	}
	p.current = p.all[0]
	return p
}

// apply applies a change or use step.
func (p *policies) apply(s step) error {
	if s.op == opChange {
		return p.current.change(s.words)
	}
	for _, b := range p.all {
		if len(s.words) == 1 && b.name == s.words[0] {
			p.current = b
			return nil
		}
	}
	return fmt.Errorf("use %q: no policy has that name", s.words)
}
