package weirredis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
)

// once decides an attempt or a record that its caller gave an id: in a call of its
// own, that is not merged with others and not answered from memory, since what is
// known of the operation is known to Redis alone.
func (e *Engine) once(ctx context.Context, p *weir.Plan, k *weir.Key, q *question, a *weir.Request) (weir.Decision, error) {
	keys := append(slices.Clip(q.keys()), e.operationKey(p, k, a.ID))
	args := []string{packMany(q.kind, p, a), string(append7(nil, p.IdempotencyTTL().Microseconds()))}
	text, err := e.eval(ctx, e.scripts.once, keys, args)
	known := err == nil && len(text) > longBytes && text[0] == isRepeated
	if known {
		text = text[1:]
	}
	var r reply
	if err == nil {
		r, text, err = cutReply(text, q)
	}
	if err == nil && !known && len(text) != len(a.States)*stateBytes {
		err = badReply{len(text)}
	}
	if !known {
		e.learn(q, &r, err)
	}
	switch {
	case err != nil:
		return weir.Decision{}, e.problem(ctx, err, p, keys, true)
	case known:
		clear(a.States) // nobody looked
		return r.repeated(text), nil
	}
	readStates(text, p, a.States)
	return q.decision(&r, p), nil
}

// repeated is the decision of what was answered before. The name of the limit that
// bound stands behind it, since the policy may not have that limit any more.
func (r *reply) repeated(limit string) weir.Decision {
	c := *r
	c.bound = 0
	d := c.decision(nil)
	d.Allowed, d.Limit, d.Replayed = r.bound == 0 || r.granted > 0, limit, true
	return d
}

// operationKey is the key of an operation:
//
//	weir2:{push}!teacher=2:42:36:dc0fd1d6-…
//
// the tag of its decision, a mark that no limit's name begins with, then all
// dimensions of the key in the order of their names, the length of the id, and the
// id.
func (e *Engine) operationKey(p *weir.Plan, k *weir.Key, id string) string {
	var room [256]byte
	b := append(e.appendTag(room[:0], p, k), '!')
	dims := make([]int, len(p.Dimensions()))
	for i := range dims {
		dims[i] = i
	}
	slices.SortFunc(dims, func(i, j int) int { return strings.Compare(p.Dimensions()[i], p.Dimensions()[j]) })
	for _, dim := range dims {
		b = append(appendValue(b, p, k, dim), ':')
	}
	b = strconv.AppendInt(b, int64(len(id)), 10)
	return string(append(append(b, ':'), id...))
}

// otherOperation reads "id KIND UNITS".
func otherOperation(word string) error {
	kind, units := 0, ""
	fmt.Sscanf(word, "id %d %s", &kind, &units) // what is not there stays empty
	what := "an attempt"
	switch {
	case kind == kindRefund:
		what = "a refund"
	case kind >= kindRecord:
		what = "a record"
	}
	return fmt.Errorf("%w: it names %s of %s units; give each operation an id of its own", weir.ErrID, what, units)
}
