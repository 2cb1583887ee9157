package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/replay"
)

func printSummaryJSON(out io.Writer, s *replay.Summary) error {
	return printJSON(out, s)
}

// printSummary writes a summary for a person: a sentence, and for each policy a
// row of its own and one for each limit.
func printSummary(out io.Writer, s *replay.Summary) error {
	span := time.Duration(s.LastAt-s.FirstAt) * time.Microsecond
	fmt.Fprintf(out, "%s over %s: %d allowed, %d denied, %d other, %s\n",
		counted(s.Lines, "line", "lines"), answer.Exactly(span), s.Allowed, s.Denied, s.Other, counted(s.Errors, "error", "errors"))
	if len(s.Policies) == 0 {
		return nil
	}
	rows := [][]string{{"POLICY", "LIMIT", "ALLOWED", "IN PART", "DENIED", "OTHER", "ERRORS"}}
	for i := range s.Policies {
		rows = appendPolicy(rows, &s.Policies[i])
	}
	fmt.Fprintln(out)
	return writeTable(out, 2, rows)
}

func appendPolicy(rows [][]string, p *replay.PolicySummary) [][]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	cut := int64(0)
	for _, l := range p.Limits {
		cut += l.Cut
	}
	rows = append(rows, []string{p.Policy, "", number(p.Allowed), number(cut), number(p.Denied), number(p.Other), number(p.Errors)})
	for _, l := range p.Limits {
		rows = append(rows, []string{"", l.Limit, "", number(l.Cut), number(l.Denied), "", ""})
	}
	return rows
}
