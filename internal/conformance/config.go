// Package conformance checks that an engine.Engine keeps its promises, in the
// layers that package weirtest, its public face, describes.
package conformance

import (
	"cmp"
	"flag"
	"io/fs"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Config sets the size of a run. DefaultConfig returns the defaults.
type Config struct {
	Vectors     fs.FS  // *.txt files
	Attempts    int    // attempts of the differential, without peeks and other operations
	Hammers     int    // concurrent histories; the live histories are four times as many
	Goroutines  int    // goroutines of each concurrent history
	Seed        uint64 // seed of the random choices
	FixedLimits bool   // no vector and no random history changes limits (R12)
	Separate    bool   // cached denials need not see the calls of other processes

	CacheTTL time.Duration // longest age of a cached denial; 0 = there are none (R8)

	Claims func(*engine.Call) bool // the calls that the engine decides; nil = all
}

// DefaultConfig returns the defaults of a run with these vectors.
func DefaultConfig(vectors fs.FS) Config {
	return Config{Vectors: vectors, Attempts: 20_000, Hammers: 12, Goroutines: 16, Seed: 1}
}

// Run checks the engines that newEngine makes, in one subtest per layer. Flags of the
// test binary take precedence over c, and -short makes c a tenth.
func Run(t *testing.T, newEngine func(t *testing.T) engine.Engine, c Config) {
	t.Helper()
	c.applyFlags()
	newEngine = c.claiming(newEngine)
	t.Run("vectors", func(t *testing.T) { runVectors(t, newEngine, c) })
	t.Run("differential", func(t *testing.T) { runDifferential(t, newEngine, c) })
	t.Run("hammer", func(t *testing.T) { runHammer(t, newEngine, c) })
	for _, layer := range layers {
		if c.Separate && layer.name == "live" {
			continue
		}
		t.Run(layer.name, func(t *testing.T) {
			if report := layer.report(newEngine(t), c); report != "" {
				t.Fatal(report)
			}
		})
	}
}

// layers are those that use one engine and report its first wrong answer.
var layers = []struct {
	name   string
	report func(e engine.Engine, c Config) string
}{
	{"instants", instants},
	{"appointments", appointments},
	{"live", live},
	{"batches", func(e engine.Engine, c Config) string {
		return cmp.Or(batches(e, c), mixedBatches(e, c), liveBatches(e, c))
	}},
	{"ended", ended},
	{"together", func(e engine.Engine, c Config) string { return cmp.Or(together(e, c), transfers(e, c)) }},
	{"once", func(e engine.Engine, c Config) string { return cmp.Or(once(e, c), settledOnce(e, c)) }},
	{"inspections", inspections},
	{"sizes", sizes},
}

// flagValues are the flags for long runs; 0 = not given.
var flagValues struct {
	attempts, hammers int
	seed              uint64
}

// init registers the flags in the test binary, unless another copy of this package has
// registered them.
func init() {
	if flag.Lookup("weirtest.attempts") != nil {
		return
	}
	flag.IntVar(&flagValues.attempts, "weirtest.attempts", 0, "`number` of attempts of the differential; 0 = its default")
	flag.IntVar(&flagValues.hammers, "weirtest.hammers", 0, "`number` of concurrent histories of the hammer; 0 = its default")
	flag.Uint64Var(&flagValues.seed, "weirtest.seed", 0, "`seed` of the random choices; 0 = the default")
}

// applyFlags overwrites fields by flags that are set.
func (c *Config) applyFlags() {
	if testing.Short() {
		c.Attempts, c.Hammers = c.Attempts/10, (c.Hammers+9)/10
	}
	c.Attempts = cmp.Or(flagValues.attempts, c.Attempts)
	c.Hammers = cmp.Or(flagValues.hammers, c.Hammers)
	c.Seed = cmp.Or(flagValues.seed, c.Seed)
}
