package weirredis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
)

// decideOnce decides an attempt or a record with an idempotency key. It has a call of its
// own, is not merged and is not answered from memory, because only Redis has the
// operation's stored answer (R15).
func (e *Engine) decideOnce(ctx context.Context, p *weir.Plan, k *weir.Key, req *request, a *weir.Request) (weir.Decision, error) {
	keys := append(slices.Clip(req.keys()), e.operationKey(p, k, a.ID))
	args := []string{packMany(req.kind, p, a), string(append7(nil, p.IdempotencyTTL().Microseconds()))}
	text, err := e.eval(ctx, e.scripts.once, keys, args)
	replayed := err == nil && len(text) > longBytes && text[0] == replyReplayed
	if replayed {
		text = text[1:]
	}
	var r reply
	if err == nil {
		r, text, err = cutReply(text, req)
	}
	if err == nil && !replayed && len(text) != len(a.States)*stateBytes {
		err = badReply{len(text)}
	}
	if !replayed {
		e.cache.replied(req, &r, err)
	}
	switch {
	case err != nil:
		return weir.Decision{}, e.callError(ctx, err, p, keys, true)
	case replayed:
		clear(a.States) // the script reads no history
		return r.replayed(text), nil
	}
	readStates(text, p, a.States)
	return req.decision(&r, p), nil
}

// replayed returns the stored decision of an operation. The name of its limit is stored
// behind it, because the policy may not have that limit any more.
func (r *reply) replayed(limit string) weir.Decision {
	c := *r
	c.bound = 0
	d := c.decision(nil)
	d.Allowed, d.Limit, d.Replayed = r.bound == 0 || r.granted > 0, limit, true
	return d
}

// operationKey returns the key of an operation:
//
//	weir2:{push}!teacher=2:42:36:dc0fd1d6-…
//
// It has the tag of its decision; a mark with which no limit's name begins; all
// dimensions of the key in the order of their names; the length of the idempotency key;
// the idempotency key.
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

// otherOperation returns the error for the script's "id KIND UNITS": the idempotency key
// belongs to another operation.
func otherOperation(word string) error {
	kind, units := 0, ""
	fmt.Sscanf(word, "id %d %s", &kind, &units) // missing parts stay empty
	op := "an attempt"
	switch {
	case kind == kindRefund:
		op = "a refund"
	case kind >= kindRecord:
		op = "a record"
	}
	return fmt.Errorf("%w: it names %s of %s units; give each operation an id of its own", weir.ErrID, op, units)
}
