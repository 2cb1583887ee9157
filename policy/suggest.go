package policy

import "strings"

// listed joins names, the first few of many.
func listed(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

// suggest returns the candidate that word was probably meant to be, or "".
func suggest(word string, candidates []string) string {
	const longest = 40 // of a word that somebody could have mistyped
	if len(word) > longest {
		return ""
	}
	word = strings.ToLower(word)
	best, least := "", len(word)/3+2 // distances below this are near
	for _, c := range candidates {
		if d := distance(word, c); d < least && d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance is the least number of bytes to insert, delete, replace or swap with
// their neighbour that turns a into b.
func distance(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
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
		older, old, row = old, row, older
	}
	return old[len(b)]
}
