package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// A limit with an unknown state has no row, because it would look empty.
func TestPrintAnswerShowsWhatIsKnown(t *testing.T) {
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{
		{Name: "unknown", Max: 1, Window: time.Minute}, {Name: "known", Max: 5, Window: time.Minute}}})
	if err != nil {
		t.Fatal(err)
	}
	a := &answer.Answer{Compiled: l.Compiled(), N: 1, Decision: weir.Decision{Allowed: true, Granted: 1},
		States: []weir.LimitState{{}, {Name: "known", Max: 5, Used: 2, Remaining: 3, Window: time.Minute}}}
	var b strings.Builder
	if err := printAnswer(&b, a, &answer.Applied{}); err != nil {
		t.Fatal(err)
	}
	table := strings.Split(strings.TrimSpace(b.String()), "\n")[2:]
	if len(table) != 2 || !strings.HasPrefix(table[1], "known ") {
		t.Errorf("got\n%swant one row, of the limit known", b.String())
	}
}

// Each kind has a row in its own words. Holds have a further column.
func TestRowsOfEachKind(t *testing.T) {
	for _, c := range []struct {
		limits []weir.Limit
		want   string
	}{
		{[]weir.Limit{{Name: "api", Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 20}}, `
LIMIT  USED  MAX     WINDOW  SAME AGAIN     EMPTY
api       1   20  10 per 1s         now  in 100ms
`},
		{[]weir.Limit{{Name: "jobs", Kind: weir.Concurrency, Max: 1, MaxHold: 30 * time.Second}, {Name: "day", Max: 9, Window: time.Hour}}, `
LIMIT  USED  MAX   WINDOW  SAME AGAIN   EMPTY  NEXT END
jobs      1    1  at once      in 30s  in 30s    in 30s
day       1    9       1h         now   in 1h         -
`},
		{[]weir.Limit{{Name: "day", Kind: weir.Fixed, Max: 9, Period: weir.Day, Zone: "Asia/Tokyo"}}, `
LIMIT  USED  MAX             WINDOW  SAME AGAIN  EMPTY
day       1    9  day in Asia/Tokyo         now  in 3h
`},
	} {
		l, err := weir.New(weir.Policy{Name: "p", Limits: c.limits})
		if err != nil {
			t.Fatal(err)
		}
		a := &answer.Answer{Compiled: l.Compiled(), N: 1, States: make([]weir.LimitState, len(c.limits))}
		at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		if a.Decision, err = l.Decide(t.Context(), a.Key, weir.Request{N: 1, At: at, States: a.States}); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := printAnswer(&b, a, &answer.Applied{}); err != nil {
			t.Fatal(err)
		}
		if _, table, _ := strings.Cut(b.String(), "\n"); table != c.want {
			t.Errorf("got%s\nwant%s", table, c.want)
		}
	}
}
