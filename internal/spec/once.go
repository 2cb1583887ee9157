package spec

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// operation is a decision with an idempotency key, known before the instant until.
type operation struct {
	op       weir.Op
	n        int64
	granted  int64 // of a refund: the instant of the entry
	decision weir.Decision
	until    int64
}

// RefundOnce is Refund with an idempotency key (R15).
func (e *Engine) RefundOnce(_ context.Context, p *weir.Plan, k weir.Key, at, n, now int64, id string) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now == weir.Now {
		now = e.clock()
	}
	d, err := e.once(p, k, id, now, operation{op: weir.OpRefund, n: n, granted: at}, nil, func() (weir.Decision, error) {
		return e.refund(p, k, at, n, now), nil
	})
	return d.Granted, err
}

// once decides an operation with an id at instant now: the first time by the rules, then
// by repeating the answer while the operation is known. That time begins at the instant of
// the decision, which R2 may have moved ahead of now.
func (e *Engine) once(p *weir.Plan, k weir.Key, id string, now int64, o operation, states []weir.LimitState,
	decide func() (weir.Decision, error)) (weir.Decision, error) {
	name := operationName(p, k, id)
	if was, ok := e.done[name]; ok && now < was.until {
		if was.op != o.op || was.n != o.n || was.granted != o.granted {
			return weir.Decision{}, fmt.Errorf("%w: it was used for other units, or another op", weir.ErrID)
		}
		clear(states)
		again := was.decision
		again.Replayed = true
		return again, nil
	}
	d, err := decide()
	if err == nil && (o.op == weir.OpRecord || d.Granted > 0 || o.op == weir.OpAttempt && p.Mode() == weir.CountDenied) {
		o.decision, o.until = d, d.At.UnixMicro()+remembered(p)
		e.done[name] = o
	}
	return d, err
}

// remembered is the number of microseconds for which an operation is known: as long as it
// can count in some limit, and at least a minute.
func remembered(p *weir.Plan) int64 {
	longest := int64(60 * second)
	for _, limit := range p.Limits() {
		longest = max(longest, limit.Keep())
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
