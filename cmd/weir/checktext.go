package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// printAnswer writes a decision for a person: the verdict, the reason, and a
// row for each limit that somebody looked at.
func printAnswer(out io.Writer, a *answer.Answer, by *answer.Applied) error {
	fmt.Fprintf(out, "%s: %s\n", verdict(a), a.WhyOf(by))
	if by.Plan != "" {
		fmt.Fprintf(out, "  plan %s\n", by.Plan)
	}
	if by.Override != "" {
		fmt.Fprintf(out, "  override: %s (%s)\n", by.Override, until(by.Until))
	}
	rows := [][]string{{"LIMIT", "USED", "MAX", "WINDOW", "SAME AGAIN", "EMPTY"}}
	for _, s := range a.Known() {
		rows = append(rows, []string{s.Name, strconv.FormatInt(s.Used, 10), strconv.FormatInt(s.Max, 10),
			answer.Exactly(s.Window), in(s.RetryAfter), in(s.ResetAfter)})
	}
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(out)
	return writeTable(out, 1, rows)
}

// until says to when an override applies.
func until(end time.Time) string {
	if end.IsZero() {
		return "forever"
	}
	return "until " + end.UTC().Format(time.RFC3339)
}

func verdict(a *answer.Answer) string {
	word := "denied"
	switch {
	case a.Decision.Allowed && a.Decision.Granted < a.N:
		word = fmt.Sprintf("allowed in part, %d of %d", a.Decision.Granted, a.N)
	case a.Decision.Allowed:
		word = "allowed"
	}
	if a.Op == weir.OpPeek {
		return "would be " + word
	}
	return word
}

// in shows a wait.
func in(d time.Duration) string {
	switch d {
	case 0:
		return "now"
	case weir.Never:
		return "never"
	}
	return "in " + answer.Wait(d)
}
