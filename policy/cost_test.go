package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/policyfile"
	"github.com/weirlimit/weir/internal/testkit/memstats"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// bombs are files of size bytes that cost a careless reader minutes or gigabytes.
func bombs(size int) map[string]string {
	const head = "version: 1\npolicies:\n"
	fill := func(head, unit string) string {
		return head + strings.Repeat(unit, (size-len(head))/len(unit))
	}
	count := func(head, format string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size-len(head)-20; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	nest := func(unit string) string {
		var b strings.Builder
		for i := 0; b.Len() < size-2000; i++ {
			b.WriteString(strings.Repeat(" ", i) + unit)
		}
		return b.String()
	}
	half := func(text string) string { return text[:strings.LastIndexByte(text[:len(text)/2], '\n')+1] }
	return map[string]string{
		"brackets":            fill("a: ", "["),
		"braces":              fill("a: ", "{a: "),
		"closed brackets":     fill("a: [", "[],"),
		"dashes":              fill("", "- "),
		"deep maps":           nest("a:\n"),
		"deep lists":          nest("-\n"),
		"commas":              fill("a: [", "a,"),
		"null values":         count("a: {", "a%d:,"),
		"null keys":           count("", "a%d:\n"),
		"many keys":           count("", "a%d: b\n"),
		"duplicate keys":      fill("", "a: b\n"),
		"quoted keys":         count("", "\"a%d\": b\n"),
		"closing brackets":    "a: " + strings.Repeat("[", size/2) + strings.Repeat("]", size/2-10),
		"tags":                fill("a: [", "!t x, "),
		"anchors":             count("a: [", "&a%d b,"),
		"doublings":           "a0: &a0 [x]\n" + count("", "a%[1]d: &a%[1]d [*a0, *a0]\n"),
		"keys of one bucket":  count("", "a%07d: b\n"),
		"long key":            strings.Repeat("k", size/2) + ":\n" + count("", " a%d: 1\n")[:size/2],
		"long quoted key":     `"` + strings.Repeat("k", size/2) + "\":\n" + count("", " a%d: 1\n")[:size/2],
		"empty lines":         fill("a: b\n", "\n"),
		"empty lines in text": fill("a: |\n x\n", "\n"),
		"blank lines in text": fill("a: >\n x\n", "  \n"),
		"short lines in text": fill("a: |-\n", " x\n"),
		"folded lines":        fill("a: >+\n", " x\n\n  y\n"),
		"plain lines":         fill("a: x\n", " x\n"),
		"plain empty lines":   fill("a: x\n", "\n x\n"),
		"blanks":              fill("a: x", " "),
		"tabs":                fill("a: x", "\t"),
		"tabs in quotes":      fill("a: \"", "\tx"),
		"quoted lines":        fill("a: \"", "x \n "),
		"quotes":              fill("a: '", "''"),
		"open quotes":         fill("", "\"\n"),
		"escapes":             fill("a: \"", `\\u00e9`),
		"comments":            fill("a: 1\n", "#\n"),
		"comments in flow":    fill("a: [", "1, #\n "),
		"documents":           fill("", "---\n"),
		"colons":              fill("", ": "),
		"colons in a line":    fill("a", "b:c"),
		"one line of JSON":    count("[", `{"a":%d},`),
		"explicit keys":       fill("", "? a\n"),
		"aliases":             count("a: [", "*a%d,"),
		"wide characters":     fill("a: ", "é😀"),

		"many policies":         count(head, "  a%d: {limit: 1 per 1s}\n"),
		"many limits":           count(head+"  a:\n    limits:\n", "      a%d: 1 per 1s\n"),
		"many keys of a limit":  count(head+"  a:\n    limit: 1 per 1s", " per a%d"),
		"many keys in a list":   count(head+"  a:\n    limit: {max: 1, window: 1s, per: [", "a%d,") + "]}",
		"a long count":          fill(head+"  a:\n    limit: ", "9"),
		"a long window":         fill(head+"  a:\n    limit: 1 per ", "w"),
		"a long unit":           fill(head+"  a:\n    limit: 1 ", "u"),
		"a long name":           fill(head+"  ", "n") + ": {limit: 1 per 1s}",
		"a long about":          fill(head+"  a: {limit: 1 per 1s, about: \"", "long ") + "\"}",
		"a long word":           fill(head+"  a:\n    ", "word"),
		"a late mistake":        count(head, "  a%d: {limit: 1 per 1s}\n") + "  a: {limit: 1 per 1w}\n",
		"many mistakes":         count(head, "  a%d: {limit: 1 per 1w}\n"),
		"many time zones":       count(head, "  a%d: {limit: \"1 per day, fixed in Europe/Berlin\"}\n"),
		"many unknown zones":    count(head, "  a%d: {limit: \"1 per day, fixed in Europe/Berlim\"}\n"),
		"a long time zone":      fill(head+"  a:\n    limit: 1 per day, fixed in ", "zone"),
		"many clauses":          fill(head+"  a:\n    limit: 1 per day", ", burst 1"),
		"a long day":            fill(head+"  a:\n    limit: 1 per month, fixed from the ", "1"),
		"many unknown words":    count(head, "  a%d: {limt: 1 per 1s, limits: 1}\n"),
		"many unknown policies": count(half(count(head, "  a%d: {limit: 1 per 1s}\n"))+"tests:\n", "  t%d: {policy: b1, steps: [{expect: allowed}]}\n"),
		"many unknown plans":    count(half(count(head+"  a:\n    limit: 1 per 1s per b\n    plans:\n", "      p%d: 1 per 1s\n"))+"    overrides:\n", "      - {for: {b: b%d}, plan: q1, until: forever, why: w}\n"),
		"many plans":            count(head+"  a:\n    limit: 1 per 1s\n    plan-by: b\n    plans:\n", "      p%d: 1 per 1s\n"),
		"many overrides":        count(head+"  a:\n    limit: 1 per 1s per b\n    overrides:\n", "      - {for: {b: b%d}, limit: 1 per 1s, until: forever, why: w}\n"),
		"plans and overrides":   count(half(count(head+"  a:\n    limit: 1 per 1s per b\n    plans:\n", "      p%d: 1 per 1s\n"))+"    overrides:\n", "      - {for: {b: b%d}, plan: p1, until: forever, why: w}\n"),
		"many tests":            count(head+"  a: {limit: 1 per 1s per b}\ntests:\n", "  t%d: {policy: a, key: {b: c}, steps: [{expect: allowed}]}\n"),
		"many steps":            count(head+"  a: {limit: 1 per 1s per b}\ntests:\n  t:\n    policy: a\n    key: {b: c}\n    steps:\n", "      - {at: %dms, expect: allowed}\n"),
		"empty limits":          fill(head+"  a:\n    limit: \"", " ,"),
	}
}

// TestHostileFilesAllocateLittle: a file of any content allocates less than 600 times its
// size, and the error is short. A file that costs much more time runs into the timeout of
// go test.
func TestHostileFilesAllocateLittle(t *testing.T) {
	needs.Time(t)
	size := policyfile.MaxBytes
	if race.Enabled {
		size /= 16
	}
	for name, text := range bombs(size) {
		text = text[:min(len(text), policyfile.MaxBytes)]
		before := memstats.Allocated()
		_, err := Parse("bomb.yaml", []byte(text))
		if allocated := memstats.Allocated() - before; allocated > 600*uint64(len(text)) {
			t.Errorf("%s: %d bytes allocated for %d of text", name, allocated, len(text))
		}
		if err != nil {
			checkError(t, name, err)
		}
	}
}
