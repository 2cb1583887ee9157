package weirredis

import (
	"context"
	"time"

	"github.com/weirlimit/weir/engine"
)

// refund takes back up to N units of the entry granted at From (R10).
func (e *Engine) refund(ctx context.Context, c *engine.Call) error {
	keys, once := e.keysFor(c.Rules, &c.Key), c.ID != "" && c.N > 0
	if once {
		keys = append(keys, e.operationKey(c.Rules, &c.Key, c.ID))
	}
	text, err := e.evalAround(ctx, c, func(around int64) (*Script, []string, []string) {
		args := []string{packRefund(c, around)}
		if once {
			args = append(args, lifetime(c.Rules))
		}
		return e.scripts["refund"], keys, args
	})
	e.cache.wrote(keys...)
	if err == nil && len(text) != refundBytes && len(text) != refundBytes+1 {
		err = badReply{len(text)}
	}
	if err != nil {
		return e.callError(ctx, err, c.Rules, keys, true)
	}
	c.Result.Granted, c.Result.At = int64At(text, 0), time.UnixMicro(int56At(text, 8))
	c.Result.Replayed = len(text) > refundBytes
	return nil
}

// count returns the units recorded in the last microseconds of a limit (R11).
func (e *Engine) count(ctx context.Context, c *engine.Call) error {
	keys := e.keysFor(c.Rules, &c.Key)
	text, err := e.evalAround(ctx, c, func(around int64) (*Script, []string, []string) {
		return e.scripts["count"], keys[c.Limit : c.Limit+1], []string{packCount(c, around)}
	})
	if err == nil && len(text) != 8 {
		err = badReply{len(text)}
	}
	if err != nil {
		return e.callError(ctx, err, c.Rules, keys, false)
	}
	c.Result.Granted = int64At(text, 0)
	return nil
}

// reset deletes the histories of the key in every limit of the rules, of all kinds (R10, R12).
func (e *Engine) reset(ctx context.Context, c *engine.Call) error {
	keys := e.keysOfAllKinds(c.Rules, &c.Key)
	_, err := e.eval(ctx, e.scripts["reset"], keys, nil)
	e.cache.wrote(keys...)
	if err != nil {
		return e.callError(ctx, err, c.Rules, keys, true)
	}
	return nil
}
