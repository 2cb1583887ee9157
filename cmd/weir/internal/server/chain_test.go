//go:build chain

package server

import (
	"os"
	"strconv"
	"testing"
)

// TestChain makes CALLS calls of POST /v1/check for one key in memory. scripts/chain compares
// the coverage of two runs.
func TestChain(t *testing.T) {
	calls, err := strconv.Atoi(os.Getenv("CALLS"))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newServer(t, nil, func(c *Config) { c.Policies = parsed(t, "  search: {limit: 1_000_000 per minute per ip}\n") })
	for range calls {
		if r := ask(s, "POST", "/v1/check", searchBody); r.status != 200 {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
	}
}
