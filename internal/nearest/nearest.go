// Package nearest finds the name that a mistyped word probably means, for error
// messages: policy files, the command line, HTTP and the Redis protocol use it.
package nearest

import "strings"

// maxWord is the longest word that counts as mistyped, in bytes. Comparing costs
// time in proportion to it.
const maxWord = 64

// Name returns the candidate that differs least from word, ignoring case, or ""
// if none is near. Near means fewer than len(word)/3 + 2 edits.
func Name(word string, candidates []string) string {
	if len(word) > maxWord {
		return ""
	}
	word = strings.ToLower(word)
	best, least := "", len(word)/3+2
	for _, c := range candidates {
		if len(c) > maxWord {
			continue
		}
		if d := distance(word, strings.ToLower(c)); d < least && d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance returns the least number of edits that turn a into b. An edit inserts,
// deletes or replaces a byte, or swaps two neighbours (optimal string alignment). b has at
// most maxWord bytes.
func distance(a, b string) int {
	// The last three rows of the table of prefixes of a and b. They are not allocated, because a
	// file may hold thousands of candidates.
	var rows [3][maxWord + 1]int
	older := rows[0][:len(b)+1]
	old := rows[1][:len(b)+1]
	row := rows[2][:len(b)+1]
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := 1
			if a[i-1] == b[j-1] {
				replace = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		reused := older
		older = old
		old = row
		row = reused
	}
	return old[len(b)]
}
