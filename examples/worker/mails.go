package main

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// sendMails sends mails of one sender, at most ten a second in all processes that use the store.
func sendMails(ctx context.Context, store engine.Engine, from string, mails []string,
	send func(mail string, turn weir.Decision) error) error {
	limiter, err := weir.New(weir.Policy{
		Name:   "mails",
		Limits: []weir.Limit{weir.PerSecond(10, "from")},
	}, weir.WithEngine(store))
	if err != nil {
		return err
	}
	for _, mail := range mails {
		turn, err := limiter.Wait(ctx, weir.K(from))
		if err != nil {
			return fmt.Errorf("%s was not sent: %w", mail, err)
		}
		if err := send(mail, turn); err != nil {
			return err
		}
	}
	return nil
}
