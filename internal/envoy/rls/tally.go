package rls

import "sync/atomic"

// tally is what became of the hits of a rule, since it was first in force without a
// break.
type tally struct {
	granted, denied atomic.Int64 // hits
	shadowed        atomic.Int64 // hits over the limit of a rule that only watches
	refunded        atomic.Int64 // hits given back, as asked for
}

// counts is what became of requests.
type counts struct {
	ok, over       atomic.Int64
	failed         atomic.Int64 // without a decision
	badInputs      atomic.Int64
	unknownDomains atomic.Int64
	kept           atomic.Int64 // hits that should have been taken back, and the store could not be asked

	unsaid     atomic.Int64 // errors since the last line of the log
	complained atomic.Int64 // Unix second of that line
}
