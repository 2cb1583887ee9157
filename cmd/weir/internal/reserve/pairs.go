package reserve

import (
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// Pairs is a key by names, each of them once.
type Pairs []enforce.Pair

// Get returns the value of a dimension.
func (p Pairs) Get(name string) (value string, ok bool) {
	for i := range p {
		if p[i].Name == name {
			return p[i].Value, true
		}
	}
	return "", false
}

// Add returns p with another pair, or the reason why it cannot be added.
func (p Pairs) Add(name, value string) (with Pairs, problem string) {
	if _, twice := p.Get(name); twice {
		return p, "the dimension " + answer.Shown(name) + " is given twice; give it once"
	}
	if len(p) == weir.MaxDimensions {
		return p, "more than " + strconv.Itoa(weir.MaxDimensions) + " dimensions; no policy has so many"
	}
	return append(p, enforce.Pair{Name: name, Value: value}), ""
}
