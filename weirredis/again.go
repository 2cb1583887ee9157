package weirredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// While a slot of a Cluster moves, a decision on several keys may find some of them
// here and some there. The server then answers TRYAGAIN before it runs anything, so
// the call may be made again; it passes as soon as the keys are together.
//
// It is the one refusal that is tried again. LOADING, CLUSTERDOWN or READONLY also
// prove that nothing ran, but they are about a server and last for seconds: callers
// are told at once. MOVED and ASK are followed by clients.

const (
	// movingFor bounds for how long one call is tried again: a slot that is still
	// on its way then may have been forgotten there.
	movingFor = time.Second

	// Pauses double from the least to the most, give or take a half.
	leastPause = time.Millisecond
	mostPause  = 32 * time.Millisecond
)

// eval runs a script once. What is refused because a slot moves is tried again
// until movingFor or the end of ctx.
func (e *Engine) eval(ctx context.Context, s *Script, keys, args []string) (string, error) {
	text, err := e.conn.Eval(ctx, s, keys, args)
	if err == nil || !isMoving(err) {
		return text, err
	}
	end := e.now().Add(movingFor)
	for pause := leastPause; e.now().Before(end); pause = min(2*pause, mostPause) {
		if over := sleep(ctx, pause/2+rand.N(pause)); over != nil {
			return "", fmt.Errorf("%w: %w", err, over)
		}
		if text, err = e.conn.Eval(ctx, s, keys, args); err == nil || !isMoving(err) {
			return text, err
		}
	}
	return "", err
}

// isMoving reports whether the server refused since a slot is on its way.
func isMoving(err error) bool {
	var refused ReplyError
	return errors.As(err, &refused) && strings.HasPrefix(string(refused), "TRYAGAIN ")
}

// sleep waits for d and returns nil, or until ctx is done and returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
