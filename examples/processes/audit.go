package main

import (
	"fmt"
	"io"
)

// span is the time in which something happened, in microseconds.
type span struct{ from, to int64 }

// audit reports the fullest window and fails if it held more than the limit.
//
// A call that lies entirely within a window was certainly granted in it. That uses only
// this machine's clock, which all processes share, and instants are cut to microseconds,
// so a window may be one microsecond shorter. By the instants of the decisions, a limit
// in constant use fills its windows exactly.
func audit(o *options, grants []grant, out io.Writer) error {
	var seen, decided []span
	for _, g := range grants {
		seen = append(seen, span{g.Called, g.Returned + 1})
		decided = append(decided, span{g.Decided, g.Decided})
	}
	certain, reported := fullest(seen, o.window.Microseconds()), fullest(decided, o.window.Microseconds())
	fmt.Fprintf(out, "together %d were granted; the fullest window of %v held %d, of which %d are certain from outside\n",
		len(grants), o.window, reported, certain)
	if most := int64(max(certain, reported)); most > o.max {
		return fmt.Errorf("a window held %d units, but at most %d are allowed", most, o.max)
	}
	if int64(len(grants)) < o.max {
		return fmt.Errorf("only %d were granted in all; the limit was never reached, so the run proves nothing", len(grants))
	}
	fmt.Fprintf(out, "never more than %d\n", o.max)
	return nil
}

// fullest returns the most spans that lie entirely within one window.
func fullest(spans []span, window int64) (most int) {
	for _, first := range spans {
		n := 0
		for _, s := range spans {
			if s.from >= first.from && s.to < first.from+window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
