package weirredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// answer is a request and its outcome.
type answer struct {
	request
	reply reply
	sent  time.Time // when the request was sent
	err   error
}

// callOne sends a request in a call of its own.
func (e *Engine) callOne(ctx context.Context, a *answer) {
	one := [1]answer{*a}
	e.callAll(ctx, one[:])
	*a = one[0]
}

// callAll sends requests in one call and sets their outcomes. If a request finds appointments (R18)
// that the script of the call cannot read, or in windows of Periods that it was not sent, that
// request and those behind it are not decided, and are sent again.
func (e *Engine) callAll(ctx context.Context, answers []answer) {
	sent := e.now()
	keys, args := compose(answers)
	text, err := e.eval(ctx, e.scripts.with(partsOf(answers)), keys, args)
	for i := range answers {
		a := &answers[i]
		a.sent = sent
		if a.err = err; err == nil {
			a.reply, text, a.err = cutReply(text, &a.request)
			if _, bad := a.err.(badReply); bad {
				err = a.err // the replies behind it are unreadable, too
			}
			if a.prepareAgain() {
				e.callAll(ctx, answers[i:])
				return
			}
		}
		e.cache.replied(&a.request, &a.reply, a.err)
	}
}

// prepareAgain prepares a request to be sent again, if it was not decided because of appointments.
// It reports whether it did.
func (a *answer) prepareAgain() bool {
	reply, _ := a.err.(ReplyError)
	until, isWindows := strings.CutPrefix(string(reply), "weir:windows ")
	switch {
	case reply == "weir:state version 5" && !a.ahead:
		a.ahead = true
		a.plan.ahead.Store(aheadFor)
	case isWindows && a.plan.until > 0:
		instant, err := strconv.ParseInt(until, 10, 64)
		if err != nil || instant <= a.windows {
			return false
		}
		a.windows = instant
	default:
		return false
	}
	a.plan = a.plan.withWindows(a.windows)
	return true
}

// While a slot of a Cluster moves, some keys of a decision may be on one node and some on
// another. The server then replies TRYAGAIN before it runs the script, so the call may be
// repeated. It succeeds as soon as the keys are together.
//
// TRYAGAIN is the only error that is retried. LOADING, CLUSTERDOWN and READONLY also
// prove that the script did not run, but they concern a server and last for seconds, so
// they are returned immediately. Clients follow MOVED and ASK.
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
