package weirredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// callOne sends one request in a call of its own.
func (e *Engine) callOne(ctx context.Context, req *request) (r reply, sent time.Time, err error) {
	sent = e.now()
	text, err := e.eval(ctx, e.scripts.forRequest(req), req.keys(), []string{req.arg})
	if err == nil {
		r, _, err = cutReply(text, req, 1)
	}
	e.cache.replied(req, &r, err)
	return r, sent, err
}

// callBatch sends the requests of a batch in one call and delivers the replies.
func (e *Engine) callBatch(ctx context.Context, requests []shared) {
	script, keys, args := e.scripts.compose(requests)
	text, err := e.eval(ctx, script, keys, args)
	for i := range requests {
		s := &requests[i]
		var r reply
		oneErr := err
		if err == nil {
			r, text, oneErr = cutReply(text, &s.request, s.callers())
			if _, bad := oneErr.(badReply); bad {
				err = oneErr // the replies behind it are unreadable, too
			}
		}
		e.cache.replied(&s.request, &r, oneErr)
		s.deliver(&r, oneErr)
	}
}

// While a slot of a Cluster moves, some keys of a decision may be on one node and some on
// another. The server then replies TRYAGAIN before it runs the script, so the call may be
// repeated. It succeeds as soon as the keys are together.
//
// TRYAGAIN is the only error that is retried. LOADING, CLUSTERDOWN and READONLY also
// prove that the script did not run, but they concern a server and last for seconds, so
// they are returned at once. Clients follow MOVED and ASK.
const (
	// retryFor bounds the retries of one call. A slot that still moves after it may be
	// stuck.
	retryFor = time.Second

	// Pauses double from the least to the most, plus or minus a half.
	minPause = time.Millisecond
	maxPause = 32 * time.Millisecond
)

// eval runs a script once. While a slot moves, it retries until retryFor has passed or
// ctx is done.
func (e *Engine) eval(ctx context.Context, s *Script, keys, args []string) (string, error) {
	text, err := e.conn.Eval(ctx, s, keys, args)
	if err == nil || !slotMoves(err) {
		return text, err
	}
	end := e.now().Add(retryFor)
	for pause := minPause; e.now().Before(end); pause = min(2*pause, maxPause) {
		wait, cancel := context.WithTimeout(ctx, pause/2+rand.N(pause))
		<-wait.Done()
		cancel()
		if ended := ctx.Err(); ended != nil {
			return "", fmt.Errorf("%w: %w", err, ended)
		}
		if text, err = e.conn.Eval(ctx, s, keys, args); err == nil || !slotMoves(err) {
			return text, err
		}
	}
	return "", err
}

// slotMoves reports whether err is the server's TRYAGAIN.
func slotMoves(err error) bool {
	var rejected ReplyError
	return errors.As(err, &rejected) && strings.HasPrefix(string(rejected), "TRYAGAIN ")
}
