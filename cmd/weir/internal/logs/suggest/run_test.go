package suggest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// ipKey returns the key of clients.
func ipKey(t *testing.T) []replay.LogKey {
	t.Helper()
	k, err := replay.ParseLogKey("ip=remote_addr")
	if err != nil {
		t.Fatal(err)
	}
	return []replay.LogKey{k}
}

// run runs suggest on a text.
func run(t *testing.T, log string, o Options) (*Result, error) {
	t.Helper()
	in, err := accesslog.Open([]string{"-"}, accesslog.Options{Stdin: strings.NewReader(log)})
	if err != nil {
		t.Fatal(err)
	}
	if o.Keys == nil {
		o.Keys = ipKey(t)
	}
	if o.Units == (replay.LogUnits{}) {
		o.Units.N = 1
	}
	return Run(context.Background(), in, o)
}

// line is a line of a log in microseconds.
func line(at int64, addr string, size int) string {
	return fmt.Sprintf(`{"ts":"%s","remote_addr":%q,"bytes_sent":%d}`+"\n", time.UnixMicro(at).UTC().Format(time.RFC3339Nano), addr, size)
}

// TestCandidatesAreThoseOfTheWindow compares random logs with a list of granted requests
// for each key, window and limit.
func TestCandidatesAreThoseOfTheWindow(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		type sent struct{ at, n int64 }
		all, names := map[string][]sent{}, []string{}
		var log strings.Builder
		at, step := int64(1772697600)*second, []int64{1, 1000, second}[r.IntN(3)]
		isBytes := seed%2 == 1
		for range 3000 {
			at += r.Int64N(4) * step
			addr := fmt.Sprintf("192.0.2.%d", min(r.IntN(40), r.IntN(40)))
			n := int64(1)
			if isBytes {
				n = r.Int64N(9)
			}
			if all[addr] == nil {
				names = append(names, addr)
			}
			all[addr] = append(all[addr], sent{at, n})
			log.WriteString(line(at, addr, int(n)))
		}
		windows := []time.Duration{time.Second, time.Duration(step*40) * time.Microsecond}
		if step == 1 {
			windows = []time.Duration{time.Millisecond, time.Second}
		}
		var limits []int64
		for n := range int64(50) {
			limits = append(limits, n)
		}
		result, err := run(t, log.String(), Options{Windows: windows, Limits: limits, LogOptions: replay.LogOptions{Units: replay.LogUnits{N: 1, Bytes: isBytes}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range result.Windows {
			peak := int64(0)
			for i, c := range w.Candidates {
				want := Candidate{Limit: int64(i)}
				series := make([]int64, len(w.Timeline.Allowed))
				for _, name := range names {
					var granted []sent
					denied := int64(0)
					for _, s := range all[name] {
						used := int64(0)
						for _, g := range granted {
							if g.at > s.at-w.Window.Microseconds() {
								used += g.n
							}
						}
						switch {
						case s.n > 0 && used+s.n > want.Limit:
							denied++
							series[(s.at-w.Timeline.Start.UnixMicro())/w.Timeline.Width.Microseconds()]++
						case s.n > 0:
							granted = append(granted, s)
							peak = max(peak, used+s.n)
						}
					}
					if denied > 0 {
						want.KeysDenied++
					}
					want.RequestsDenied += denied
				}
				if c != want {
					t.Fatalf("seed %d, %v: got %+v, want %+v", seed, w.Window, c, want)
				}
				if got := w.Denials[c.Limit]; !slices.Equal(got, series) {
					t.Fatalf("seed %d, %v, limit %d: denied over time %v, want %v", seed, w.Window, c.Limit, got, series)
				}
			}
			if last := w.Candidates[len(w.Candidates)-1]; last.RequestsDenied == 0 && w.Peaks.Max != peak {
				t.Errorf("seed %d, %v: got the greatest peak %d, want %d", seed, w.Window, w.Peaks.Max, peak)
			}
		}
	}
}
