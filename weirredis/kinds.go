package weirredis

import (
	"context"
	"errors"
	"strings"

	"github.com/weirlimit/weir"
)

// The scripts for plain limits do not read the history of a bucket, and the scripts for a
// Bucket read no other. The clock of the server may lie outside of the windows that were
// sent for a Period. In each of these cases a script decides nothing, and the request is
// sent again: to the script kinds, with the windows around the server's instant.

// maxTries bounds the calls of one request. The second has the windows around the server's
// instant, so a third is needed only if a window ends between them.
const maxTries = 4

// errWindows is the error of a request after maxTries.
var errWindows = ReplyError("weirredis: the clock of the server leaves every window that is sent; is it being set?")

// elsewhere reports whether a request must be sent again, and the instant around which its
// windows are needed. r and err are its reply; at is the instant of the request.
func (e *Engine) elsewhere(r *reply, err error, at moment) (needed bool, around int64) {
	if err == nil {
		return r.elsewhere, r.at
	}
	return isBucket(err), e.around(at)
}

// isBucket reports whether err is that of a script for plain limits on the history of a
// bucket (form 8 or 9 of its header).
func isBucket(err error) bool {
	var refused ReplyError
	if !errors.As(err, &refused) {
		return false
	}
	_, word, ours := strings.Cut(string(refused), "weir:state version ")
	version, _, _ := strings.Cut(word, " ")
	return ours && (version == "8" || version == "9")
}

// decideKinds decides req, which is for the plan and the request a, by the script kinds.
// The windows of Periods are those around an instant.
func (e *Engine) decideKinds(ctx context.Context, p *weir.Plan, req *request, a *weir.Request, around int64) (weir.Decision, error) {
	kinds := *req
	kinds.way, kinds.bucket, kinds.n = wayKinds, nil, a.N
	var r reply
	err := error(errWindows)
	for range maxTries {
		kinds.arg = packMany(req.kind, p, a, around)
		if r, _, err = e.send(ctx, &kinds); err != nil {
			return weir.Decision{}, e.callError(ctx, err, p, req.keys(), req.writes())
		}
		if !r.elsewhere {
			return kinds.decision(&r, p), nil
		}
		around, err = r.at, errWindows
	}
	return weir.Decision{}, e.callError(ctx, err, p, req.keys(), req.writes())
}

// composed returns a script, its keys and its arguments with the windows around an instant.
// If again is set, an earlier script did not read a history.
type composed func(around int64, again bool) (*Script, []string, []string)

// evalAround runs a script in a call of its own, and again where it decided nothing. at is
// the instant of the call.
func (e *Engine) evalAround(ctx context.Context, at moment, compose composed) (string, error) {
	around := e.around(at)
	again := false
	for range maxTries {
		script, keys, args := compose(around, again)
		text, err := e.eval(ctx, script, keys, args)
		switch {
		case !again && (isBucket(err) || err == nil && len(text) > 3 && text[0] == replyError && isBucket(ReplyError(text[3:]))):
		case err == nil && len(text) == elsewhereBytes && text[0] == replyElsewhere:
			around = int56At(text, 1)
		default:
			return text, err
		}
		again = true
	}
	return "", errWindows
}
