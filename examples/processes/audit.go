package main

import (
	"fmt"
	"io"
	"slices"
)

// audit says how full the fullest window was, and fails if it held too much.
func audit(o *options, r report, out io.Writer) error {
	window := o.window.Microseconds()
	seen, told := provable(r.Grants, window), byInstant(r.Grants, window)
	fmt.Fprintf(out, "together %d were granted; the fullest window of %v held %d, and provably %d as seen from outside\n",
		len(r.Grants), o.window, told, seen)
	if most := int64(max(seen, told)); most > o.max {
		return fmt.Errorf("a window held %d, and %d are allowed", most, o.max)
	}
	if int64(len(r.Grants)) < o.max {
		return fmt.Errorf("only %d were granted in all: the limit was never reached, so this shows nothing", len(r.Grants))
	}
	fmt.Fprintf(out, "never more than %d\n", o.max)
	return nil
}

// provable is the most grants that surely fell into one window, whenever between
// call and answer each was made. It trusts this machine's clock alone, which all
// processes read; instants are cut to microseconds, so a window may be one shorter.
func provable(grants []grant, window int64) int {
	most := 0
	for _, first := range grants {
		n := 0
		for _, g := range grants {
			if g.Asked >= first.Asked && g.Answered < first.Asked+window-1 {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// byInstant is the most grants in one window by the instants that the decisions
// tell: of a limit that is in use all the time, exactly the limit.
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
