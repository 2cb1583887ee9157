// Package faulttest injects faults into the network, the server, the data and the
// Cluster while callers use the Redis engine. Four properties must hold under every
// fault.
//
//   - Every call returns by its deadline, or soon after.
//   - Answers are true. Units of a granted call are recorded once. Units of a denied
//     or failed call are not recorded, unless the error is marked OutcomeUnknown or
//     wraps weir.ErrOutcomeUnknown.
//   - All limits of a policy hold the same grants: there are no partial writes.
//   - No window holds more than its limit and the units that the store has lost, seen
//     from outside. Behind a package fallback it holds no more than the fallback
//     promises.
//
// After the fault the same client recovers without help.
//
// go test runs each fault once, in less than a minute. make test-faults runs them
// with many seeds.
package faulttest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// seeds is the number of seeds for each fault. 0, the value under go test, runs one
// seed with fewer places and modes.
var seeds = flag.Int("faulttest.seeds", 0, "`number` of seeds for each fault, in every place and mode; 0 = one seed and fewer places")

// firstSeed is the first seed. The printed seed with -faulttest.seeds=1 repeats a failure.
var firstSeed = flag.Int("faulttest.first", 1, "the first seed")

func TestMain(m *testing.M) {
	if addr := os.Getenv(storeVariable); addr != "" { // a process of TestWaiters
		if err := runWaiters(addr, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // they mostly wait
	os.Exit(m.Run())
}

// eachClient runs a test with every client and every seed.
func eachClient(t *testing.T, test func(t *testing.T, c client, r *rand.Rand)) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for i := range max(1, *seeds) {
				seed := *firstSeed + i
				t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
					t.Parallel()
					test(t, c, rand.New(rand.NewPCG(uint64(seed), 0)))
				})
			}
		})
	}
}
