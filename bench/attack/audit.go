package main

import (
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/adversary"
)

// limit is one limit of the audited policy.
type limit struct {
	Max    int
	Window time.Duration
}

// Both limits bind: honest callers attempt more than either grants.
var limits = []limit{{20, time.Second}, {600, time.Minute}}

// answered is one call of an honest caller, in nanoseconds since the start.
type answered struct {
	call, returned int64
	verdict        verdict
}

type verdict uint8

const (
	denied  verdict = iota
	granted         // one unit
	unknown         // no answer: the unit may have been granted or not
)

// slack covers that one side reads its clock in whole microseconds.
const slack = int64(time.Millisecond)

// wrongDecisions counts the provably wrong decisions of one user.
//
//   - excess is the number of units above the limit in the worst window. A grant counts if
//     its entire interval lies inside the window.
//   - wrongDenials is the number of calls that were denied although no limit was used up.
//     A grant or an unknown counts if it may lie in the window before the denial.
func wrongDecisions(calls []answered, limits []limit) (excess, wrongDenials int) {
	var grants []adversary.Grant
	var froms, untils []int64 // bounds of each possible grant
	for _, c := range calls {
		if c.verdict == granted {
			grants = append(grants, adversary.Grant{Call: c.call, Return: c.returned})
		}
		if c.verdict != denied {
			froms, untils = append(froms, c.call), append(untils, c.returned)
		}
	}
	slices.Sort(froms)
	slices.Sort(untils)
	for _, l := range limits {
		excess = max(excess, adversary.MaxGrants(grants, l.Window)-l.Max)
	}
	for _, c := range calls {
		if c.verdict == denied && !mayBeUsedUp(froms, untils, c, limits) {
			wrongDenials++
		}
	}
	return max(excess, 0), wrongDenials
}

// mayBeUsedUp reports whether a limit may have been used up when c was decided.
func mayBeUsedUp(froms, untils []int64, c answered, limits []limit) bool {
	begun, _ := slices.BinarySearch(froms, c.returned+slack)
	for _, l := range limits {
		gone, _ := slices.BinarySearch(untils, c.call-int64(l.Window)-slack)
		if begun-gone >= l.Max {
			return true
		}
	}
	return false
}
