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
	m := machine.Machine{CPU: "Quick 9000", Cores: 2, Memory: "4 kB", OS: "An OS", Go: "go1.26", Load: "0, 0, 0", Commit: "abc123"}
	writeHead(&out, m, time.Date(2026, 11, 20, 12, 30, 0, 0, time.FixedZone("", 3600)), false)
	want := []string{"Quick 9000, 2 cores", "go1.26", "abc123", "2026-11-20 11:30 UTC"}
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
		t.Error("a full run is called quick")
	}
}

func TestSectionNamesItsCommand(t *testing.T) {
	var out strings.Builder
	s := section{title: "Title", program: "scoreboard", intro: "INTRO\n"}
	s.write(&out, []string{"-svg", "x.svg"}, 61_400*time.Millisecond, []byte("printed\n"), false)
	want := "\n## Title\n\nCommand: `go run ./scoreboard -svg x.svg`, in 1m1s.\n\nINTRO\nprinted\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
