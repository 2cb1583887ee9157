// Package testing shows how a program that uses Weir is tested: in virtual time, at
// chosen instants, and with a store that fails.
package testing

import (
	"context"

	"github.com/weirlimit/weir"
)

// Sender sends notifications within a limit for each user.
type Sender struct {
	Limiter *weir.Limiter
	Send    func(user string)
}

// Notify sends a notification, and reports whether the limit allowed it.
func (s *Sender) Notify(ctx context.Context, user string) (bool, error) {
	d, err := s.Limiter.Allow(ctx, weir.K(user))
	if err != nil || !d.Allowed {
		return false, err
	}
	s.Send(user)
	return true, nil
}
