package main

import (
	"fmt"
	"io"
	"slices"
)

// audit reports the fullest window and fails if it held more than the limit.
func audit(o *options, r report, out io.Writer) error {
	window := o.window.Microseconds()
	seen, reported := provable(r.Grants, window), byInstant(r.Grants, window)
	fmt.Fprintf(out, "together %d were granted; the fullest window of %v held %d, of which %d are certain from outside\n",
		len(r.Grants), o.window, reported, seen)
	if most := int64(max(seen, reported)); most > o.max {
		return fmt.Errorf("a window held %d units, but at most %d are allowed", most, o.max)
	}
	if int64(len(r.Grants)) < o.max {
		return fmt.Errorf("only %d were granted in all; the limit was never reached, so the run proves nothing", len(r.Grants))
	}
	fmt.Fprintf(out, "never more than %d\n", o.max)
	return nil
}

// provable returns the most grants that certainly fell into one window: their calls lie
// entirely within it. It uses only this machine's clock, which all processes share.
// Instants are cut to microseconds, so a window may be one microsecond shorter.
func provable(grants []grant, window int64) int {
	most := 0
	for _, first := range grants {
		n := 0
		for _, g := range grants {
			if g.Called >= first.Called && g.Returned < first.Called+window-1 {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// byInstant returns the most grants in one window by the instants of the decisions. For a
// limit in constant use that is exactly the limit.
func byInstant(grants []grant, window int64) int {
	var at []int64
	for _, g := range grants {
		at = append(at, g.Decided)
	}
	slices.Sort(at)
	most, from := 0, 0
	for i := range at {
		for at[from] <= at[i]-window {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
