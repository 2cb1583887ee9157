package weirtest

import "flag"

// flagValues are the flags of long runs. 0 means not given.
var flagValues struct {
	attempts, hammers int
	seed              uint64
}

// init registers the flags in the test binary, unless another copy of this
// package was first.
func init() {
	if flag.Lookup("weirtest.attempts") != nil {
		return
	}
	flag.IntVar(&flagValues.attempts, "weirtest.attempts", 0, "attempts of the differential, in place of its default")
	flag.IntVar(&flagValues.hammers, "weirtest.hammers", 0, "concurrent histories of the hammer, in place of its default")
	flag.Uint64Var(&flagValues.seed, "weirtest.seed", 0, "where the random choices begin, in place of the default")
}

// obeyFlags puts the flags that were given in place of the options.
func (c *config) obeyFlags() {
	if flagValues.attempts != 0 {
		c.attempts = flagValues.attempts
	}
	if flagValues.hammers != 0 {
		c.hammers = flagValues.hammers
	}
	if flagValues.seed != 0 {
		c.seed = flagValues.seed
	}
}
