package main

import "slices"

// nearest returns the name that differs least from what was typed, when the two
// are near enough for a slip of the fingers.
func nearest(typed string, names []string) (name string, ok bool) {
	best := len(typed)/3 + 2
	for _, candidate := range names {
		if d := distance(typed, candidate); d < best && d < len(candidate) {
			name, best, ok = candidate, d, true
		}
	}
	return name, ok
}

// distance is the number of bytes to insert, delete or replace to make b of a
// (Levenshtein), or to swap with a neighbour.
func distance(a, b string) int {
	var before, last, row []int // two rows above, one above, this one
	for j := range len(b) + 1 {
		last = append(last, j)
	}
	for i := range len(a) {
		row = []int{i + 1}
		for j := range len(b) {
			d := min(last[j+1]+1, row[j]+1)
			if a[i] == b[j] {
				d = min(d, last[j])
			} else {
				d = min(d, last[j]+1)
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row = append(row, d)
		}
		before, last = last, slices.Clone(row)
	}
	return last[len(b)]
}
