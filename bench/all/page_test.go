package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/bench/internal/machine"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/redispeers"
)

func TestHeadNamesMachineAndContestants(t *testing.T) {
	var out strings.Builder
	m := machine.Machine{CPU: "Quick 9000", Cores: 2, Memory: "4 kB", OS: "An OS", Go: "go1.26"}
	writeHead(&out, m, false)
	want := []string{"Quick 9000, 2 cores", "go1.26"}
	for _, p := range peers.All() {
		want = append(want, "| "+p.Name+" | "+p.Module+" |")
	}
	for _, p := range redispeers.All() {
		want = append(want, "| "+p.Name+" | "+p.Module+" |")
	}
	for _, a := range peers.Absent() {
		want = append(want, a.Module)
	}
	for _, w := range want {
		if !strings.Contains(out.String(), w) {
			t.Errorf("the head lacks %q:\n%s", w, out.String())
		}
	}
	if strings.Contains(out.String(), "quick run") {
		t.Error("a full run is marked quick")
	}
}

func TestSectionNamesItsCommand(t *testing.T) {
	var out strings.Builder
	s := section{title: "Title", program: "scoreboard", intro: "INTRO\n"}
	m := machine.Machine{Commit: "abc123", Load: "0, 0, 0"}
	s.write(&out, m, []string{"-svg", "x.svg"}, time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC), 61_400*time.Millisecond, []byte("printed\n"), false)
	want := "\n## Title\n\nCommand: `go run ./scoreboard -svg x.svg`, in 1m1s, on 2026-11-20 12:30 UTC, commit abc123, load before 0, 0, 0.\n\nINTRO\nprinted\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestOneSectionIsReplaced: the others stay unchanged, byte for byte.
func TestOneSectionIsReplaced(t *testing.T) {
	const page = "# Results\n\nhead\n\n## A\n\na\n\n### A, goals\n\n| ## B |\n\n## B\n\nb\n\n## C\n\nc\n"
	for _, c := range []struct{ title, text, want string }{
		{"A", "## A\n\nnew\n\n", strings.Replace(page, "## A\n\na\n\n### A, goals\n\n| ## B |\n\n", "## A\n\nnew\n\n", 1)},
		{"B", "## B\n\nnew\n\n", strings.Replace(page, "## B\n\nb\n\n", "## B\n\nnew\n\n", 1)},
		{"B", "## B\n\nnew\n", strings.Replace(page, "## B\n\nb\n\n", "## B\n\nnew\n\n", 1)}, // the last section of its page
		{"C", "## C\n\nnew\n\n", strings.Replace(page, "## C\n\nc\n", "## C\n\nnew\n", 1)},   // not the last one
		{"C", "## C\n\nnew\n", strings.Replace(page, "## C\n\nc\n", "## C\n\nnew\n", 1)},
		{"D", "## D\n\nnew\n", page + "\n## D\n\nnew\n"},
	} {
		if got := replaced(page, c.title, c.text); got != c.want {
			t.Errorf("%s replaced: got\n%s\nwant\n%s", c.title, got, c.want)
		}
		if got := replaced(page, c.title, sectionOf(page, c.title)); c.title != "D" && got != page {
			t.Errorf("%s replaced by itself: got\n%s", c.title, got)
		}
	}
}
