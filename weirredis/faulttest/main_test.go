// Package faulttest breaks what the Redis engine stands on, while callers use it:
// the network, the server, the data, the Cluster. Whatever happens, four things
// have to hold.
//
//   - Every call returns by its deadline, or soon after.
//   - Callers are told the truth. Units of a granted call are recorded once; those
//     of a refused or failed call are not recorded; only where an error says that
//     the call may have been counted, it may.
//   - All limits of a policy hold the same grants: there are no partial writes.
//   - No window holds more than its limit, seen from outside, except by what the
//     store itself has lost. Behind a package fallback it holds no more than the
//     fallback promises.
//
// And when the fault is over the same client goes on without help.
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

// seeds is how often each fault is tried with other random choices. 0 stands for
// go test: once, and with fewer places and modes where there are many.
var seeds = flag.Int("faulttest.seeds", 0, "try each fault with so many seeds, and in every place and mode")

// firstSeed repeats a failure: the seed it printed, with -faulttest.seeds=1.
var firstSeed = flag.Int("faulttest.first", 1, "the first seed")

func TestMain(m *testing.M) {
	if addr := os.Getenv(workerEnv); addr != "" {
		os.Exit(work(addr))
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // they mostly wait
	os.Exit(m.Run())
}

// eachClient runs a test with every client, and as many seeds as wanted.
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
