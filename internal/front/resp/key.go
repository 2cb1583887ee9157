package resp

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// keyOf builds the plan's key of dimension=value pairs, in any order.
func keyOf(p *weir.Plan, pairs []string) (weir.Key, error) {
	dims := p.Dimensions()
	if len(pairs) == len(dims) {
		var few [4]string
		values := few[:0]
		for _, dim := range dims {
			v, ok := valueOf(dim, pairs)
			if !ok {
				break
			}
			values = append(values, v)
		}
		if len(values) == len(dims) {
			return weir.K(values...), nil
		}
	}
	return weir.Key{}, keyProblem(p, pairs)
}

func valueOf(dim string, pairs []string) (string, bool) {
	for _, pair := range pairs {
		if len(pair) > len(dim) && pair[len(dim)] == '=' && pair[:len(dim)] == dim {
			return pair[len(dim)+1:], true
		}
	}
	return "", false
}

// keyProblem says why pairs are no key of the plan.
func keyProblem(p *weir.Plan, pairs []string) error {
	named := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return inputError(answer.Shown(pair) + " has no =; write dimension=value for each of " + dimensions(p))
		}
		if _, twice := named[name]; twice {
			return inputError("the dimension " + answer.Shown(name) + " is given twice; give it once")
		}
		named[name] = value
	}
	_, err := p.Key(named)
	return err
}

// dimensions lists what a key of the plan names.
func dimensions(p *weir.Plan) string {
	if len(p.Dimensions()) == 0 {
		return "no dimension: the policy counts all callers together"
	}
	return strings.Join(p.Dimensions(), ", ")
}
