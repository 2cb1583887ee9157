// Package weirtest tells whether a weir.Engine keeps its promises. Run it
// against an engine of your own:
//
//	func TestConformance(t *testing.T) {
//		weirtest.Run(t, func(t *testing.T) weir.Engine { return mystore.New(t) })
//	}
//
// It looks in five ways, each of which sees what the others miss:
//
//   - vectors: stories in testdata/*.txt, one rule each, with every answer
//     written down. They explain a failure best.
//   - differential: random policies and histories, asked mostly at the very
//     instants at which something changes, and compared answer by answer with
//     the executable specification. Announced waits are tried on both sides. A
//     difference is cut down to a short vector, ready to paste.
//   - hammer: many goroutines on short windows by the engine's own clock, on few
//     keys or on so many that they are forgotten and made anew, audited from outside
//     by nothing but the times of call and return, and again by the instants the
//     engine claims.
//   - live: random histories by the engine's own clock, one call after the other,
//     compared with the specification at the instants of the answers. Refused attempts
//     are made again between calls of other keys, which finds stale caches.
//   - once: operations with an id, each made by several goroutines at once.
//
// What it cannot see: restarts, lost connections and failovers of a store, and
// anything that takes longer than the test.
package weirtest

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// Run checks the engines that newEngine makes against the rules, in the subtests
// vectors, differential, hammer, live and once. It calls newEngine several times, also
// concurrently; an engine may remember other policies, since Run never uses a
// policy's name twice. newEngine may register t.Cleanup to close the engine.
//
// The flags -weirtest.attempts, -weirtest.hammers and -weirtest.seed of the test
// binary take precedence over options.
func Run(t *testing.T, newEngine func(t *testing.T) weir.Engine, opts ...Option) {
	t.Helper()
	c := newConfig(opts)
	t.Run("vectors", func(t *testing.T) { runVectors(t, newEngine, c) })
	t.Run("differential", func(t *testing.T) { runDifferential(t, newEngine, c) })
	t.Run("hammer", func(t *testing.T) { runHammer(t, newEngine, c) })
	t.Run("live", func(t *testing.T) { runLive(t, newEngine, c) })
	t.Run("once", func(t *testing.T) {
		if report := once(newEngine(t), c); report != "" {
			t.Fatal(report)
		}
	})
}

// Option adjusts a Run.
type Option func(*config)

type config struct {
	attempts   int
	hammers    int
	goroutines int
	seed       uint64
	fixed      bool
	refundIDs  bool
	separate   bool
	minWindow  time.Duration
}

func newConfig(opts []Option) config {
	c := config{attempts: 20_000, hammers: 12, goroutines: 16, seed: 1, minWindow: weir.MinWindow}
	for _, o := range opts {
		o(&c)
	}
	c.obeyFlags()
	return c
}

// Attempts sets how many attempts the differential makes, peeks and the rest not
// counted: 20,000 by default, 0 for none.
func Attempts(n int) Option { return func(c *config) { c.attempts = n } }

// Hammers sets how many concurrent histories the hammer makes, of about a tenth
// of a second each: 12 by default, 0 for none. The live histories are four times as many.
func Hammers(n int) Option { return func(c *config) { c.hammers = n } }

// Goroutines sets how many goroutines hammer at once: 16 by default.
func Goroutines(n int) Option { return func(c *config) { c.goroutines = n } }

// Seed sets where the random choices begin: 1 by default. Failures print it.
func Seed(n uint64) Option { return func(c *config) { c.seed = n } }

// FixedLimits is for an engine whose limits cannot change while histories live
// (R12): no vector and no random history changes them.
func FixedLimits() Option { return func(c *config) { c.fixed = true } }

// Separate is for an engine that passes its calls to several, as processes on one store
// are: a denial that one of them has cached may have a wait from before a grant of
// another (R8). The live histories are left out.
func Separate() Option { return func(c *config) { c.separate = true } }

// MinWindow sets the shortest window of the differential, which runs in virtual
// time: 1ms by default. An engine that lets real time expire what virtual time
// still counts, sooner than within the hour R13 demands, needs more.
func MinWindow(d time.Duration) Option { return func(c *config) { c.minWindow = d } }
