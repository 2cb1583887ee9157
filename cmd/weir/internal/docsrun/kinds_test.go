//go:build unix

package docsrun_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/policy"
)

const kindsPage = "docs/kinds.md"

// TestDrawingsOfKinds replays the drawings of docs/kinds.md. Behind the line of instants each has
// limits, and below each limit what became of one attempt a second. A blank is a second without an
// attempt.
func TestDrawingsOfKinds(t *testing.T) {
	drawings := markdown.Texts(read(t, kindsPage), "text")
	if len(drawings) != 3 {
		t.Fatalf("%s has %d drawings, want 3", kindsPage, len(drawings))
	}
	for _, drawing := range drawings {
		rows := strings.Split(strings.TrimSuffix(drawing, "\n"), "\n")
		start := firstInstant(t, rows[0])
		for i := 1; i < len(rows); i += 2 {
			line, countDenied := strings.CutSuffix(rows[i], ", denied: counted")
			limit, _, err := policy.ParseLimit(line)
			if err != nil {
				t.Fatal(err)
			}
			p := weir.Policy{Name: "kinds", Limits: []weir.Limit{limit}}
			if countDenied {
				p.Mode = weir.CountDenied
			}
			if got := draw(t, p, start, rows[i+1]); got != rows[i+1] {
				t.Errorf("%s:\n%s drawn, and\n%s decided", rows[i], rows[i+1], got)
			}
		}
	}
}

// firstInstant returns the instant of the first column, from a line such as "0:50      1:00".
func firstInstant(t *testing.T, header string) time.Time {
	t.Helper()
	first := strings.Fields(header)[0]
	if minutes, seconds, ok := strings.Cut(first, ":"); ok {
		first = minutes + "m" + seconds + "s"
	}
	nine := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	since, err := time.ParseDuration(first)
	if err != nil {
		t.Fatal(err)
	}
	return nine.Add(since)
}

// draw returns the row that a policy makes of the attempts in a drawn one.
func draw(t *testing.T, p weir.Policy, start time.Time, row string) string {
	t.Helper()
	limiter := newLimiter(t, p)
	made := []byte(row)
	for second := range made {
		if made[second] == ' ' {
			continue
		}
		at := limiter.At(start.Add(time.Duration(second) * time.Second))
		d, err := at.Allow(t.Context(), weir.K())
		if err != nil {
			t.Fatal(err)
		}
		made[second] = '.'
		if d.Allowed {
			made[second] = '|'
		}
	}
	return string(made)
}

// memoryRow matches a row of the page's table of memory.
var memoryRow = regexp.MustCompile("(?m)^\\| `(500 [^`]+)`(?:, (\\d+) cells)? \\| (\\d+) \\| ([0-9.]+) GB \\|$")

// TestMemoryOfKinds: a key of each limit in the page's table takes as many bytes as the table has,
// within a tenth.
func TestMemoryOfKinds(t *testing.T) {
	needs.Time(t)
	rows := memoryRow.FindAllStringSubmatch(read(t, kindsPage), -1)
	if len(rows) != 4 {
		t.Fatalf("%s has %d rows about memory, want 4", kindsPage, len(rows))
	}
	for _, row := range rows {
		limit, _, err := policy.ParseLimit(row[1])
		if err != nil {
			t.Fatal(err)
		}
		limit.Cells, _ = strconv.Atoi(row[2]) // 0 without the words
		got := bytesOfUser(t, limit)
		t.Logf("%s: %.0f bytes", strings.Trim(row[0], "| "), got)

		want, _ := strconv.ParseFloat(row[3], 64) // digits, by the expression
		if math.Abs(got-want) > want/10 {
			t.Errorf("%s: a user takes %.0f bytes", row[0], got)
		}
		if million := fmt.Sprintf("%.1f", want/1000); million != row[4] {
			t.Errorf("%s: a million users take %s GB", row[0], million)
		}
	}
}

// bytesOfUser returns the bytes for each of many users, each of whom has used up 500 within the
// hour. A user has 16 bytes.
func bytesOfUser(t *testing.T, limit weir.Limit) float64 {
	t.Helper()
	const users = 4000
	memory := weir.NewMemory()
	limiter, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{limit}}, weir.WithEngine(memory))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	for attempt := range 500 {
		at := limiter.At(start.Add(time.Duration(attempt) * 7 * time.Second))
		for user := range users {
			d, err := at.Allow(t.Context(), weir.K(fmt.Sprintf("user:%011d", user)))
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
	}
	return float64(memory.Stats().Bytes) / users
}
