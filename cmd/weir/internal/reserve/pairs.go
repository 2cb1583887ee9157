package reserve

import (
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
)

// Pair is a dimension of a key with its value.
type Pair struct{ Name, Value string }

// Pairs is a key by names, each of them once.
type Pairs []Pair

// Get returns the value of a dimension.
func (p Pairs) Get(name string) (value string, ok bool) {
	for i := range p {
		if p[i].Name == name {
			return p[i].Value, true
		}
	}
	return "", false
}

// Add appends a pair. It returns the reason if it cannot, or "".
func (p *Pairs) Add(name, value string) (problem string) {
	if _, twice := p.Get(name); twice {
		return "the dimension " + answer.Shown(name) + " is given twice; give it once"
	}
	if len(*p) == weir.MaxDimensions {
		return "more than " + strconv.Itoa(weir.MaxDimensions) + " dimensions; no policy has so many"
	}
	*p = append(*p, Pair{Name: name, Value: value})
	return ""
}

// Lookup returns the pairs for the policy that orders them.
func (p Pairs) Lookup() enforce.Lookup {
	return enforce.Lookup{Count: len(p), Value: p.Get, Map: func() map[string]string {
		m := map[string]string{}
		for _, each := range p {
			m[each.Name] = each.Value
		}
		return m
	}}
}
