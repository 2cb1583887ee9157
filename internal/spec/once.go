package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// operation is a decision that its caller gave an id, and until when it is known.
type operation struct {
	op       weir.Op
	n        int64
	decision weir.Decision
	until    int64
}

// once decides an operation with an id: the first time by the rules, and as long as
// what that recorded is remembered by repeating the answer.
func (e *Engine) once(p *weir.Plan, k weir.Key, a weir.Ask) (weir.Decision, error) {
	name := operationName(p, k, a.ID)
	if o, ok := e.done[name]; ok && a.At < o.until {
		if o.op != a.Op || o.n != a.N {
			return weir.Decision{}, fmt.Errorf("%w: it was used for other units, or another op", weir.ErrID)
		}
		clear(a.States)
		again := o.decision
		again.Repeated = true
		return again, nil
	}
	d, err := e.decide(p, k, a)
	if err == nil && (a.Op == weir.OpRecord || d.Granted > 0 || p.Mode() == weir.CountDenied) {
		e.done[name] = operation{a.Op, a.N, d, d.At.UnixMicro() + remembered(p)}
	}
	return d, err
}

// remembered is for how many microseconds an operation is known: as long as it can
// count in some limit, and at least a minute.
func remembered(p *weir.Plan) int64 {
	longest := int64(60 * second)
	for _, limit := range p.Limits() {
		longest = max(longest, limit.Window+limit.Cell)
	}
	return longest
}

// operationName names the operation: policy, the key's values by the names of their
// dimensions in alphabetical order, and the id.
func operationName(p *weir.Plan, k weir.Key, id string) string {
	var parts []string
	for i, dim := range p.Dimensions() {
		parts = append(parts, fmt.Sprintf("%q=%q", dim, k.Value(i)))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %s %q", p.Name(), strings.Join(parts, " "), id)
}
