package conformance

import "fmt"

// bullets are the rules of docs/semantics.md in one sentence each, for failures
// to quote.
var bullets = map[int]string{
	1:  "a decision reads one instant and acts on all limits at it",
	2:  "a clock behind by less than a second is carried forward to the newest entry; further behind, the future counts as now",
	3:  "an entry of instant t counts at now exactly while t > now - Window; of fixed windows all entries count until theirs is over",
	4:  "a refusal, a peek and a count change nothing; recording drops what no longer counts",
	5:  "room is the least of Max - used over all limits; the gap is open when now - last >= Gap for every limit",
	6:  "all n units or none; Partial grants min(n, room); CountDenied records every attempt in full",
	7:  "what is granted is recorded in every limit at the same instant, or in none",
	8:  "RetryAfter is exact: granted in full then, not one microsecond sooner; 0 if granted in full now; Never if n > Max",
	9:  "with Cells, entries of one cell merge and count one cell longer; the gap uses exact times",
	10: "Record adds without asking; Refund takes back from the entry of that instant alone and never moves last; Reset forgets",
	11: "Count is the units recorded in (now - d, now], with Cells those of every cell that overlaps it; of fixed windows those that count",
	12: "a history belongs to policy, limit and key by name; new numbers take effect on it at the next decision",
	13: "a history is kept until its newest entry no longer counts",
	14: "bad input is an error and changes nothing; two different keys never share a history",
	15: "a denial is not an error; what has an id may be asked again, is answered as before, and is charged once",
}

// promise is what the rules are for. Of limits with fixed windows it is one of 2 * Max.
const promise = "the units granted in any half-open window [s, s+Window) are at most Max, for every limit"

// bullet quotes rule r.
func bullet(r int) string { return fmt.Sprintf("R%d: %s", r, bullets[r]) }

// suspects are the rules to look at first when an answer differs in a field.
var suspects = map[string][]int{
	"error":     {14, 15},
	"units":     {10, 11, 3},
	"granted":   {3, 5, 6},
	"at":        {1, 2},
	"remaining": {5, 3, 4},
	"wait":      {8},
	"reset":     {8},
	"limit":     {5, 6},
	"degraded":  {15},
	"repeated":  {15},
	"states":    {3, 5, 8},
}
