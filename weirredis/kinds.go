package weirredis

import (
	"context"

	"github.com/weirlimit/weir/engine"
)

// The scripts for a Bucket decide nothing if its rate has changed, or if the clock was
// corrected. The clock of the server may lie outside of the windows that were sent for a
// Period. In each of these cases the request is sent again: to the script kinds, with the
// windows around the server's instant.

// maxTries bounds the calls of one request. The second has the windows around the server's
// instant, so a third is needed only if a window ends between them.
const maxTries = 4

// errWindows is the error of a request after maxTries.
var errWindows = ReplyError("weirredis: the clock of the server leaves every window that is sent; is it being set?")

// decideKinds decides req, which is the request of a call, by the script kinds.
// The windows of Periods are those around an instant.
func (e *Engine) decideKinds(ctx context.Context, c *engine.Call, req *request, around int64) error {
	kinds := *req
	kinds.way, kinds.bucket, kinds.n = wayKinds, nil, c.N
	var r reply
	err := error(errWindows)
	for range maxTries {
		kinds.arg = packMany(req.kind, c, around)
		if r, _, err = e.send(ctx, &kinds); err != nil {
			return e.callError(ctx, err, c.Rules, req.keys(), req.writes())
		}
		if !r.elsewhere {
			c.Result = kinds.result(&r, c.Rules)
			return nil
		}
		around, err = r.at, errWindows
	}
	return e.callError(ctx, err, c.Rules, req.keys(), req.writes())
}

// composed returns a script, its keys and its arguments with the windows around an instant.
type composed func(around int64) (*Script, []string, []string)

// evalAround runs a script in a call of its own, and again where it decided nothing.
func (e *Engine) evalAround(ctx context.Context, c *engine.Call, compose composed) (string, error) {
	around := e.around(c)
	for range maxTries {
		script, keys, args := compose(around)
		text, err := e.eval(ctx, script, keys, args)
		if err != nil || len(text) != elsewhereBytes || text[0] != replyElsewhere {
			return text, err
		}
		around = int56At(text, 1)
	}
	return "", errWindows
}
