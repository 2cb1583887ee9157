package suggest

import (
	"cmp"
	"slices"
)

// roundness are the leading digits of round numbers, the roundest first.
var roundness = [][]int64{{10, 20, 50}, {30, 15, 25, 40, 60, 80}, {12}}

// coarseness returns 0 for the roundest numbers, such as 50, and more for others: 3 for
// other numbers of two digits with zeros, and 4 for the rest.
func coarseness(n int64) int {
	for n >= 100 && n%10 == 0 {
		n /= 10
	}
	if n < 10 {
		n *= 10
	}
	for level, digits := range roundness {
		if slices.Contains(digits, n) {
			return level
		}
	}
	if n < 100 {
		return len(roundness)
	}
	return len(roundness) + 1
}

// roundFrom returns the numbers of two digits with zeros in from … to, ascending. Below 100
// they are all whole numbers.
func roundFrom(from, to int64) (all []int64) {
	for n := max(1, from); n <= to; {
		unit := int64(1)
		for n/unit >= 100 {
			unit *= 10
		}
		n = (n + unit - 1) / unit * unit
		if n <= to {
			all = append(all, n)
		}
		n += unit
	}
	return all
}

// roundest returns the roundest number of a list, of equals the one nearest to a target.
func roundest(all []int64, target int64) int64 {
	return slices.MinFunc(all, func(a, b int64) int {
		if d := coarseness(a) - coarseness(b); d != 0 {
			return d
		}
		return cmp.Compare(abs(a-target), abs(b-target))
	})
}

func abs(n int64) int64 { return max(n, -n) }
