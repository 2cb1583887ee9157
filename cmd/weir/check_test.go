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
	a := &answer.Answer{Plan: l.Plan(), N: 1, Decision: weir.Decision{Allowed: true, Granted: 1},
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
