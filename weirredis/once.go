package weirredis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir/engine"
)

// lifetime is the packed time to live of an operation.
func lifetime(p *engine.Compiled) string {
	return string(append7(nil, p.IdempotencyTTL.Microseconds()))
}

// replayed sets the stored result of an operation. The script read no history. The
// name of the limit is stored behind the decision, because the policy may not have that
// limit any more.
func (e *Engine) replayed(ctx context.Context, text string, c *engine.Call, keys []string) error {
	if text[0] != replyLong {
		return e.callError(ctx, badReply{len(text)}, c.Rules, keys, true)
	}
	r, limit := longReply(text), text[longBytes:]
	denied := r.bound > 0 && r.granted == 0
	r.bound = 0
	c.Result = r.result(nil)
	c.Result.Allowed, c.Result.Limit, c.Result.Replayed = !denied, limit, true
	return nil
}

// operationKey returns the key of an operation:
//
//	weir2:{push}!teacher=2:42:36:dc0fd1d6-…
//
// It has the tag of its decision; a mark with which no limit's name begins; all
// dimensions of the key in the order of their names; the length of the idempotency key;
// the idempotency key.
func (e *Engine) operationKey(p *engine.Compiled, k *engine.Key, id string) string {
	var room [256]byte
	b := append(e.appendTag(room[:0], p, &p.Limits[0], k), '!')
	dims := make([]int, len(p.Dimensions))
	for i := range dims {
		dims[i] = i
	}
	sortByName(p, dims)
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
	return engine.Input("id", "it names %s of %s units; give each operation an id of its own", op, units)
}
