// Package weirtest is the conformance kit for implementations of engine.Engine, and a
// faulty engine for tests of outages. Run it against your engine:
//
//	func TestConformance(t *testing.T) {
//		weirtest.Run(t, func(t *testing.T) engine.Engine { return newEngine(t) })
//	}
//
// It checks in twelve layers. Each layer finds faults that the others miss:
//
//   - vectors: the files testdata/*.txt, short histories about one rule each, with
//     every expected answer. They explain a failure best.
//   - differential: random policies and histories in virtual time, mostly at the exact
//     instants at which something changes. Reservations are settled and extended with right and
//     wrong numbers and ids, and blocks begin and end. Every answer is compared with the executable
//     specification, and announced waits are tried on both sides. A difference is
//     reduced to a short vector, ready to paste.
//   - instants: requests without an instant are decided now, by the engine's own clock, and
//     requests at a given one there, from 1970-01-01T00:00:00Z on.
//   - appointments: many goroutines book and cancel attempts that wait; by the instants of use no
//     limit is exceeded, and each key is served in order (R18).
//   - hammer: many goroutines on short windows by the engine's own clock, on a few keys,
//     or on so many that keys are forgotten and made again. The audit uses only the times
//     of call and return, and then the instants that the engine reports.
//   - live: random histories by the engine's own clock, one call after the other,
//     compared with the specification at the instants of the answers. Denied attempts
//     are repeated between calls with other keys, which finds stale caches. A cached denial
//     is compared with the denial that it repeats, too.
//   - batches: random batches of requests; their answers must be those of the same requests
//     one after the other at one instant. So must those of batches of all operations, under two
//     policies and at several instants.
//   - ended: a call with a context that has ended returns soon.
//   - together: random calls of several policies and keys that are charged all or none,
//     compared with single requests, and transfers in several goroutines.
//   - once: operations with an idempotency key, each made by several goroutines at the same time.
//     Reservations are settled by several goroutines with different numbers: one wins.
//   - inspections: random histories, whose keys are inspected between the steps if the engine sets
//     the Histories of a call. They must be the entries of the specification, and equal a peek and
//     a count.
//   - sizes: large batches, a long history, keys of the most dimensions, and the fields of a
//     result that an operation leaves zero.
//
// The kit cannot find faults in restarts, lost connections and failovers of a store, and
// faults that need longer than the test.
package weirtest

import (
	"embed"
	"io/fs"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/conformance"
	"github.com/weirlimit/weir/internal/option"
)

//go:embed testdata/*.txt
var testdata embed.FS

// Run checks the engines that newEngine makes against the rules, in the subtests
// vectors, differential, instants, hammer, live, batches, ended, together, once, inspections and
// sizes. It calls newEngine several times, also concurrently. An engine may remember other
// policies, because Run never uses the name of a policy twice. newEngine may register t.Cleanup
// to close the engine.
//
// The flags -weirtest.attempts, -weirtest.hammers and -weirtest.seed of the test binary
// take precedence over options. With -short Run makes a tenth of the attempts and histories.
func Run(t *testing.T, newEngine func(t *testing.T) engine.Engine, opts ...Option) {
	t.Helper()
	vectors, err := fs.Sub(testdata, "testdata")
	if err != nil {
		t.Fatal(err)
	}
	c := config{conformance.DefaultConfig(vectors)}
	option.Apply(&c, opts)
	conformance.Run(t, newEngine, c.Config)
}

// Option sets one property of a [Run]. A nil Option changes nothing.
type Option func(*config)

type config struct{ conformance.Config }

// Attempts sets the number of attempts in the differential; peeks and other operations
// do not count. 0 or less skips the differential. Default: 20,000.
func Attempts(n int) Option { return func(c *config) { c.Attempts = n } }

// Hammers sets the number of concurrent histories, of about a tenth of a second each. There are
// four times as many live histories. 0 or less skips them. Default: 12.
func Hammers(n int) Option { return func(c *config) { c.Hammers = n } }

// FixedLimits skips changes of limits that have histories (R12), for engines that do not
// support them. Default: limits change.
func FixedLimits() Option { return func(c *config) { c.FixedLimits = true } }

// CachesDenials permits denials that are marked Cached, as an engine on a shared store marks
// them. Each must repeat a denial of the same attempt that is younger than ttl (R8). Default,
// also for 0 or less: no answer may be marked.
func CachesDenials(ttl time.Duration) Option {
	return func(c *config) { c.CacheTTL = max(ttl, 0) }
}

// Separate is for an engine that spreads its calls over several engines, as processes on one
// store do. A cached denial may then be older than a call of another process (R8). Run leaves
// out the layer live. Default: all calls reach one engine.
func Separate() Option { return func(c *config) { c.Separate = true } }

// Claims is for an engine that decides only the calls that claims reports, by their Rules, Op, ID,
// TTL and MaxWait. It must reject all others as bad input ([engine.ErrInput]) and change nothing.
// Run leaves out vectors with other calls, and layers that need them. Attempts and peeks without an
// id under rolling limits without a block are claimed by every engine. Default, also for nil: all
// calls.
//
// An engine without appointments (R18) claims no call with a MaxWait. One without reservations
// (R19) claims no call with a TTL, no Settle and no Extend. An
// engine without blocks (R20) claims no Block, no Probe, and no rules with a Block of a limit.
func Claims(claims func(*engine.Call) bool) Option {
	return func(c *config) { c.Claims = claims }
}
