//go:build chain

package server

import (
	"os"
	"runtime/coverage"
	"testing"
)

// TestChain writes the coverage of one warm POST /v1/check, with its key in memory, to the
// directory CHAIN, for scripts/chain.
func TestChain(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.Policies = parsed(t, "  search: {limit: 1_000_000 per minute per ip}\n") })
	for range 100 {
		decide(t, s, "/v1/check", searchBody)
	}
	if err := coverage.ClearCounters(); err != nil {
		t.Fatal(err)
	}
	answer := ask(s, "POST", "/v1/check", searchBody)
	dir := os.Getenv("CHAIN")
	if err := coverage.WriteCountersDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		t.Fatal(err)
	}
	if answer.status != 200 {
		t.Errorf("status %d", answer.status)
	}
}
