package weirredis

import (
	"context"

	"github.com/weirlimit/weir"
)

// Refund takes back up to n units of the entry granted at instant at (R10).
func (e *Engine) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	return e.RefundOnce(ctx, p, k, at, n, now, "")
}

// RefundOnce is Refund with an idempotency key (weir.RefundOnceEngine); "" is none.
func (e *Engine) RefundOnce(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64, id string) (int64, error) {
	keys, instant := e.keysFor(p, &k), momentNow(now)
	if id != "" {
		keys = append(keys, e.operationKey(p, &k, id))
	}
	most, err := e.units(ctx, p, keys, true, instant, func(around int64) (*Script, []string, []string) {
		args := []string{packRefund(p, at, n, instant, around)}
		if id != "" {
			args = append(args, lifetime(p))
		}
		return e.scripts["refund"], keys, args
	})
	e.cache.wrote(keys...)
	return most, err
}

// Count returns the units recorded in the last microseconds of limit i (R11).
func (e *Engine) Count(ctx context.Context, p *weir.Plan, k weir.Key, i int, last, now int64) (int64, error) {
	keys, instant := e.keysFor(p, &k), momentNow(now)
	return e.units(ctx, p, keys, false, instant, func(around int64) (*Script, []string, []string) {
		return e.scripts["count"], keys[i : i+1], []string{packCount(&p.Limits()[i], last, instant, around)}
	})
}

// Reset deletes the histories of the key in every limit of the plan, of all kinds (R10, R12).
func (e *Engine) Reset(ctx context.Context, p *weir.Plan, k weir.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	keys := e.keysOfAllKinds(p, &k)
	_, err := e.eval(ctx, e.scripts["reset"], keys, nil)
	e.cache.wrote(keys...)
	if err != nil {
		return e.callError(ctx, err, p, keys, true)
	}
	return nil
}

// units runs a script whose reply is a number of units.
func (e *Engine) units(ctx context.Context, p *weir.Plan, keys []string, writes bool, at moment, call composed) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	text, err := e.evalAround(ctx, at, call)
	if err == nil && len(text) != 8 {
		err = badReply{len(text)}
	}
	if err != nil {
		return 0, e.callError(ctx, err, p, keys, writes)
	}
	return int64At(text, 0), nil
}
