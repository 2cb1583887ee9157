package server

import (
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
)

// pair is one dimension of a key and its value.
type pair struct{ name, value string }

// pairs is a key by names, each of them once. Up to four need no allocation,
// which is why it is no slice.
type pairs struct {
	n    int
	few  [4]pair
	more []pair // those beyond the fourth
}

// at is the i-th pair, 0 … n-1.
func (p *pairs) at(i int) pair {
	if i < len(p.few) {
		return p.few[i]
	}
	return p.more[i-len(p.few)]
}

// subject is who the pairs name to a policy.
func (p *pairs) subject(r *enforce.Rule) (enforce.Target, error) {
	return r.Target(enforce.Lookup{Count: p.n, Value: p.value, Map: p.named})
}

// value returns the value of a dimension.
func (p *pairs) value(name string) (value string, ok bool) {
	for i := range p.n {
		if o := p.at(i); o.name == name {
			return o.value, true
		}
	}
	return "", false
}

// add appends a pair; it returns what keeps it from being one, or "".
func (p *pairs) add(name, value string) (problem string) {
	if _, twice := p.value(name); twice {
		return "the dimension " + answer.Shown(name) + " is given twice; give it once"
	}
	if p.n == weir.MaxDimensions {
		return "more than " + strconv.Itoa(weir.MaxDimensions) + " dimensions; no policy has so many"
	}
	if p.n < len(p.few) {
		p.few[p.n] = pair{name, value}
	} else {
		p.more = append(p.more, pair{name, value})
	}
	p.n++
	return ""
}

// named returns the pairs as a map.
func (p *pairs) named() map[string]string {
	m := map[string]string{}
	for i := range p.n {
		m[p.at(i).name] = p.at(i).value
	}
	return m
}
