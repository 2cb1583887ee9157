package weirredis

import (
	"context"
	"errors"
	"time"
)

// clientTimeout is a timeout of the client's own: all that the error is, but for a
// context's error, which callers would take for that of their context.
type clientTimeout struct{ error }

// Is reports whether the error is the target, unless that is a context's error.
func (e clientTimeout) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.error, target)
}

// As finds the target in the error.
func (e clientTimeout) As(target any) bool { return errors.As(e.error, target) }

// theirs is err as the owner of ctx may see it: with a context's error in it only if
// his own is over.
func theirs(ctx context.Context, err error) error {
	if !isOver(ctx) && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return clientTimeout{err}
	}
	return err
}

// isOver reports whether the time of the context's owner is up. The clock is asked
// too: several contexts of one deadline do not end at one instant.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) <= 0
}
