package suggest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/policy"
)

// TestCandidatesAgreeWithReplay compares logs, some with lines that are late by seconds or
// hours, with weir replay of their sorted lines on the memory engine, also over time.
func TestCandidatesAgreeWithReplay(t *testing.T) {
	for seed := range uint64(race.Fewer(30)) {
		r := rand.New(rand.NewPCG(seed, 9))
		var log strings.Builder
		at, late := int64(1772697600)*second, seed%4
		for range 1500 {
			if at += r.Int64N(second); late == 3 { // the log runs backward
				at -= r.Int64N(4 * second)
			}
			shown := at
			switch {
			case late == 1 && r.IntN(20) == 0:
				shown -= r.Int64N(20 * second)
			case late == 2 && r.IntN(50) == 0:
				shown -= r.Int64N(7200 * second)
			}
			log.WriteString(line(shown, fmt.Sprintf("192.0.2.%d", min(r.IntN(9), r.IntN(9))), r.IntN(5)))
		}
		units := replay.LogUnits{N: 1 + int64(seed%2), Bytes: seed%5 == 4}
		window := []time.Duration{3 * time.Second, 40 * time.Second}[seed/4%2]
		limits := []int64{0, 1, 2, 3, 5, 8, 13}
		o := Options{Windows: []time.Duration{window}, Limits: limits, LogOptions: replay.LogOptions{Units: units}}
		result, err := run(t, log.String(), o)
		if err != nil {
			t.Fatal(err)
		}
		if late > 0 && result.Log.Late == 0 {
			t.Fatalf("seed %d: no line is late", seed)
		}
		for i, c := range result.Windows[0].Candidates {
			s := replayed(t, log.String(), fmt.Sprintf("%d per %v per ip", limits[i], window), units)
			if want := (Candidate{limits[i], s.Denied, s.Policies[0].KeysDenied}); c != want {
				t.Errorf("seed %d, %v: got %+v, replay has %+v", seed, window, c, want)
			}
			if got, want := result.Windows[0].Denials[c.Limit], s.Policies[0].Timeline.Denied; !slices.Equal(got, want) {
				t.Errorf("seed %d, %v, limit %d: denied over time %v, replay has %v", seed, window, c.Limit, got, want)
			}
		}
		w := &result.Windows[0]
		if s := replayed(t, log.String(), w.Suggested.Line, units); s.Denied != w.Suggested.RequestsDenied || s.Policies[0].KeysDenied != w.Suggested.KeysDenied {
			t.Errorf("seed %d: suggested %+v, replay has %d denied", seed, w.Suggested, s.Denied)
		}
		for _, less := range []int64{0, 1} { // the greatest peak is the least limit that denies nothing
			if s := replayed(t, log.String(), fmt.Sprintf("%d per %v per ip", w.Peaks.Max-less, window), units); (s.Denied > 0) != (less > 0) {
				t.Errorf("seed %d: the greatest peak less %d, %d, denies %d", seed, less, w.Peaks.Max-less, s.Denied)
			}
		}
	}
}

// replayed decides a log by one limit.
func replayed(t *testing.T, log, limit string, units replay.LogUnits) *replay.LogSummary {
	t.Helper()
	f, err := policy.Parse("weir.yaml", fmt.Appendf(nil, "version: 1\npolicies:\n  p:\n    limit: %s\n", limit))
	if err != nil {
		t.Fatal(err)
	}
	runner, err := replay.NewLogRunner(f, weir.NewMemory(), replay.LogOptions{Keys: ipKey(t), Units: units})
	if err != nil {
		t.Fatal(err)
	}
	o := accesslog.Options{Stdin: strings.NewReader(log), Reorder: 24 * time.Hour}
	reader, err := accesslog.Open([]string{"-"}, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := runner.Run(reader)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// TestTooManyKeysAreReported: above the memory the run ends with one message.
func TestTooManyKeysAreReported(t *testing.T) {
	var log strings.Builder
	for i := range 40_000 {
		log.WriteString(line(1772697600*second, fmt.Sprintf("10.0.%d.%d", i/250, i%250), 1))
	}
	_, err := run(t, log.String(), Options{Memory: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "keys are more than fit in 1 MiB; select requests with --where") {
		t.Errorf("got %v", err)
	}
	if r, err := run(t, log.String(), Options{}); err != nil || r.Keys != 40_000 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestOneDayDecides: the suggestion without the only day of a busy client is lower, and the
// reason names that day.
func TestOneDayDecides(t *testing.T) {
	var log strings.Builder
	for day := range int64(3) {
		begin := (int64(1772668800) + day*86400) * second
		for i := range int64(300) {
			at := begin + i*100*second
			for range 1 + i%5 {
				log.WriteString(line(at, fmt.Sprintf("192.0.2.%d", i%30), 1))
			}
			if day == 1 && i < 15 { // one visit, not steady
				log.WriteString(line(begin+i*second/10, "192.0.2.99", 1))
			}
		}
	}
	r, err := run(t, log.String(), Options{Windows: []time.Duration{time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	w := &r.Windows[0]
	if len(w.WithoutDay) != 3 || w.WithoutDay[1].Limit >= w.WithoutDay[0].Limit || !strings.Contains(w.Suggested.Why, "without 2026-03-06") {
		t.Errorf("got %+v, %q", w.WithoutDay, w.Suggested.Why)
	}
}
