package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// configuration is the set of files that weir reads.
type configuration struct{ policies, envoy string }

// Two versions of each file, for reloads. Windows are short, so that the histories have
// their full size after a few of them.
var (
	policies = [2]string{`version: 1
policies:
  users: {limit: 1000 per 10s per user}
  few: {limit: 5 per 10s per user}
  both: {limits: {all: 100_000 per 10s, user: 20 per 10s per user}}
`, `version: 1
policies:
  few: {limit: 4 per 10s per user}
  users: {limit: 1000 per 12s per user}
  both: {limits: {all: 100_000 per 10s, user: 20 per 10s per user}}
  seldom: {limit: 1 per minute per user}
`}
	domains = [2]string{
		"domain: soak\ndescriptors:\n- {key: user, rate_limit: {unit: second, requests_per_unit: 3}}\n",
		"domain: soak\ndescriptors:\n- {key: user, rate_limit: {unit: second, requests_per_unit: 2}}\n- {key: other, rate_limit: {unit: second, requests_per_unit: 2}}\n",
	}
)

// write replaces a file by one of its versions, as an editor does: new file, then rename.
func (c configuration) write(n int) error {
	for path, text := range map[string]string{c.policies: policies[n%2], c.envoy: domains[n%2]} {
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

// replace alternates between the versions every few seconds.
func (c configuration) replace(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := c.write(n); err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
		}
	}
}
