package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestMain runs the program instead of the tests in worker processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-from" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestWorkersShareATimetable: three processes send 24 mails in the order of their calls.
func TestWorkersShareATimetable(t *testing.T) {
	server := redistest.Start(t)
	var out strings.Builder
	err := run([]string{"-store", "redis://" + server.Addr, "-processes", "3", "-mails", "8"}, &out)
	t.Logf("%s", out.String())
	must.Do(t, err)
	if got := strings.Count(out.String(), "called at"); got != 24 {
		t.Errorf("the timetable has %d lines, want 24", got)
	}
	page, err := os.ReadFile("../../docs/waiting.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		shape := regexp.QuoteMeta(strings.TrimRight(line, "\n"))
		shape = regexp.MustCompile(`\d+`).ReplaceAllString(shape, `\d+`)
		if !regexp.MustCompile("(?m)^ *" + shape + "$").Match(page) {
			t.Errorf("docs/waiting.md shows no line like %q", line)
		}
	}
}

// TestTimetableDetectsFaults: an eleventh turn in a second, and a turn before that of an earlier call.
func TestTimetableDetectsFaults(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	full := make([]sent, 11)
	for i := range full {
		full[i].At = start
	}
	for says, all := range map[string][]sent{
		"more than 10 turns":   full,
		"its turn came sooner": {{"a", start, time.Second}, {"b", start.Add(1), 0}},
	} {
		if err := printTimetable(all, new(strings.Builder)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	full[10].After = time.Second
	must.Do(t, printTimetable(full, new(strings.Builder)))
}
