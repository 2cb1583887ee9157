package strictyaml

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

const mebibyte = 1 << 20

// bombs are texts of 1 MiB that cost a careless reader minutes or gigabytes.
func bombs() map[string]string {
	fill := func(head, unit string) string {
		return head + strings.Repeat(unit, (mebibyte-len(head))/len(unit))
	}
	count := func(head, format string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < mebibyte-len(head)-20; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	nest := func(unit string) string {
		var b strings.Builder
		for i := 0; b.Len() < mebibyte-2000; i++ {
			b.WriteString(strings.Repeat(" ", i) + unit)
		}
		return b.String()
	}
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
		"keys of one bucket":  count("", "a%07d: b\n"),
		"long key":            strings.Repeat("k", mebibyte/2) + ":\n" + count("", " a%d: 1\n")[:mebibyte/2],
		"long quoted key":     `"` + strings.Repeat("k", mebibyte/2) + "\":\n" + count("", " a%d: 1\n")[:mebibyte/2],
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
	}
}

// TestCost: a text of 1 MiB allocates less than 96 times its size, whatever is in
// it. What would cost more time than that does not come back before go test gives up.
func TestCost(t *testing.T) {
	for name, text := range bombs() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := Read([]byte(text))
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 96*mebibyte {
			t.Errorf("%s: %d bytes allocated for %d of text", name, allocated, len(text))
		}
		if err != nil {
			checkError(t, d, err.(*Error))
		}
	}
}

// TestDepth: 32 levels are read, 33 are not, in every form.
func TestDepth(t *testing.T) {
	forms := map[string]func(n int) string{
		"lists":     func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) },
		"maps":      func(n int) string { return strings.Repeat("{a: ", n) + "b" + strings.Repeat("}", n) },
		"dashes":    func(n int) string { return strings.Repeat("- ", n) + "a" },
		"block map": func(n int) string { return blockMaps(n) },
	}
	for name, form := range forms {
		if _, err := Read([]byte(form(MaxDepth))); err != nil {
			t.Errorf("%s: %d levels: %v", name, MaxDepth, err)
		}
		if _, err := Read([]byte(form(MaxDepth + 1))); err == nil || !strings.Contains(err.Error(), "32 levels") {
			t.Errorf("%s: %d levels: got %v, want an error that says so", name, MaxDepth+1, err)
		}
	}
}

func blockMaps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func BenchmarkCost(b *testing.B) {
	for name, text := range bombs() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				Read([]byte(text))
			}
		})
	}
}
