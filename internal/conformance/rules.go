package conformance

import "fmt"

// ruleSentences are the rules of docs/semantics.md in one sentence each, for reports.
var ruleSentences = map[int]string{
	1:  "a decision uses one instant for all limits: the given one, or without one that of the engine's clock",
	2:  "a clock behind by less than a second is carried forward to the newest entry; if it is further behind, the future counts as now",
	3:  "an entry of instant t counts at now exactly while t > now - Window; in a fixed window all entries count until its end",
	4:  "a denial, a peek and a count change nothing; recording drops entries that no longer count",
	5:  "room is the least of Max - used over all limits; the interval is over when now - last >= MinInterval for every limit",
	6:  "all n units or none; Partial grants min(n, room); CountDenied records every attempt in full",
	7:  "granted units are recorded in every limit at the same instant, or in none",
	8:  "RetryAfter is exact: granted in full then, not one microsecond sooner; 0 if granted in full now; Never if n > Max; a denial repeated from memory is marked",
	9:  "with Cells, entries of one cell merge and count one cell longer; MinInterval uses exact instants",
	10: "Record adds without a decision; Refund takes back from the entry of that instant alone, or from the oldest ones, and never moves last; Reset forgets, of the limits that count by every dimension, or of those that it names",
	11: "Count is the units recorded in (now - d, now], with Cells those of every overlapping cell; with fixed windows those that count",
	12: "a history belongs to policy, limit and key by name; new numbers take effect on it at the next decision",
	13: "a history is kept until its newest entry no longer counts",
	14: "bad input is an error and changes nothing; a given instant is 1970-01-01T00:00:00Z to 2^53 - 1 µs later; two different keys never share a history",
	15: "a denial is not an error; an operation with an id may be repeated: it gets the first answer and is charged once",
	16: "a bucket refills at Max per Window without rounding; an attempt fits if so many whole units are there",
	17: "units of Concurrency are held for MaxHold, or until a settlement",
	18: "an attempt with MaxWait is recorded at the first instant at which it fits; what is ahead counts as used from its booking on",
	19: "a reservation is opened with its grant, settled once in one step, extended while it lives, and known until the end of its life and a minute after its grant and its settlement",
	20: "a denied attempt or probe begins the block of its Limit at its instant; a running block denies attempts, peeks and probes, charges nothing and is not prolonged",
}

// promise is the purpose of the rules. For limits with fixed windows the bound is 2 * Max.
const promise = "the units granted in any half-open window [s, s+Window) are at most Max, for every limit"

// quoteRule returns the number and the sentence of rule r.
func quoteRule(r int) string { return fmt.Sprintf("R%d: %s", r, ruleSentences[r]) }

// rulesByField are the rules to read first when an answer differs in a field.
var rulesByField = map[string][]int{
	"error":     {14, 15},
	"units":     {10, 11, 3},
	"names":     {10},
	"granted":   {3, 5, 6},
	"at":        {1, 2},
	"remaining": {5, 3, 4},
	"wait":      {8},
	"reset":     {8},
	"limit":     {5, 6},
	"degraded":  {15},
	"replayed":  {15},
	"numbers":   {15},
	"cached":    {8},
	"states":    {3, 5, 8},

	"start":       {18},
	"blocked":     {20},
	"reservation": {19},
}
