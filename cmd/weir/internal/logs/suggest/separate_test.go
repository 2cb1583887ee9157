package suggest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestSuggestionsSeparateScripts plants ordinary clients and scripts. A suggestion denies at
// most 0.1 % of the ordinary requests, and at least 90 % of those that scripts send beyond
// a step above the largest ordinary peak. In 100 logs with three windows each 1 to 2 % missed that:
// nightly jobs in logs of an hour look like slow scripts. These seeds have logs of 1 to 24
// hours, each of at most 270,000 requests.
func TestSuggestionsSeparateScripts(t *testing.T) {
	needs.Time(t)
	missed, windows := 0, 0
	for _, seed := range []uint64{3, 18, 0, 6, 7, 8, 13, 17}[:race.Fewer(8)] {
		p := plant(seed)
		r := p.suggest(t, Options{})
		for i, w := range r.Windows {
			windows++
			problem := p.check(&w)
			if w.Suggested.Basis != Gap && i != r.Best && !strings.Contains(problem, "ordinary requests") {
				continue // it says that no keys stand apart in this window, and spares all others
			}
			if problem != "" {
				missed++
				t.Logf("seed %d, %v: %s (%s)", seed, w.Window, problem, w.Suggested.Why)
			}
		}
	}
	if missed*20 > windows {
		t.Errorf("%d of %d suggestions missed", missed, windows)
	}
}

// TestScriptsNextToPeopleStandApart plants scripts whose peaks are just above those of people in
// some window, at 9 and 10 per second for instance. The best window is another one.
func TestScriptsNextToPeopleStandApart(t *testing.T) {
	needs.Time(t)
	for _, seed := range []uint64{1, 17}[:race.Fewer(2)] {
		p := plantClose(seed)
		r := p.suggest(t, Options{Windows: []time.Duration{time.Second, 10 * time.Second, time.Minute}})
		w := &r.Windows[r.Best]
		if problem := p.check(w); problem != "" || w.Suggested.Basis != Gap {
			t.Errorf("seed %d, %v: %s (%s)", seed, w.Window, problem, w.Suggested.Why)
		}
	}
}

// TestTheBestWindowFitsTheLog reads the example of a quarter of an hour. Its hour denies more
// than its minute, and is a guess.
func TestTheBestWindowFitsTheLog(t *testing.T) {
	log, err := os.ReadFile("../../../../../examples/logs/access.log")
	if err != nil {
		t.Fatal(err)
	}
	result, err := run(t, string(log), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := result.Windows[result.Best]; w.Window != time.Minute || w.Suggested.Basis != Gap || w.Suggested.KeysDenied != 2 {
		t.Errorf("the best window is %v, which denies %d keys; want a minute and the 2 scripts", w.Window, w.Suggested.KeysDenied)
	}
}

// suggest returns the suggestions for the requests, without a log around them: reading lines
// took most of the time.
func (p *planted) suggest(t *testing.T, o Options) *Result {
	t.Helper()
	source, err := replay.NewLogKeys(replay.LogOptions{Keys: ipKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	o = withDefaults(o)
	all := requests{memory: o.Memory}
	for _, r := range p.all {
		must.Do(t, all.add(keyenc.Append(nil, r.key), r.at, 1))
		all.noteTraits(traitValues{agent: r.agent, user: r.user, path: r.path, status: r.status})
	}
	result := &Result{Dimensions: source.Dimensions(), Zone: o.Zone}
	all.computeResult(result, &o, source)
	return result
}

// check returns the fault of a suggestion, or "".
func (p *planted) check(w *Window) string {
	byKey := map[string][]request{}
	var slots replay.Slots
	for _, e := range p.all {
		byKey[e.key] = append(byKey[e.key], request{e.at, 1})
		slots.Add(e.at, false)
	}
	var h history
	window, peak := w.Window.Microseconds(), int64(0)
	denied := func(limit int64, all []request) int64 {
		e := newEffect(window, limit, &slots)
		n, _ := e.add(&h, all)
		return n
	}
	for key, all := range byKey {
		if !p.script[key] {
			peak = max(peak, fullestUnits(all, window))
		}
	}
	var ordinary, harmed, excess, caught int64
	for key, all := range byKey {
		if p.script[key] {
			excess += denied(peak+1, all) // a limit has headroom of a step
			caught += denied(w.Suggested.Limit, all)
		} else {
			ordinary += int64(len(all))
			harmed += denied(w.Suggested.Limit, all)
		}
	}
	switch {
	case harmed*1000 > ordinary:
		return fmt.Sprintf("limit %d, largest ordinary peak %d: denies %d of %d ordinary requests", w.Suggested.Limit, peak, harmed, ordinary)
	case caught*10 < excess*9:
		return fmt.Sprintf("limit %d, largest ordinary peak %d: denies %d of %d", w.Suggested.Limit, peak, caught, excess)
	}
	return ""
}

// TestAWideGapTellsScriptsBySize plants few scripts that send one burst each, so they are
// not steady, among few clients.
func TestAWideGapTellsScriptsBySize(t *testing.T) {
	lines := map[int64]string{}
	start := time.Date(2026, 3, 5, 8, 0, 0, 0, time.UTC).UnixMicro()
	put := func(client int, at time.Duration) {
		us := start + at.Microseconds() + int64(len(lines))
		lines[us] = line(us, fmt.Sprintf("192.0.2.%d", client), 5)
	}
	for client := range 30 {
		for visit := range 5 {
			for page := range 4 + client%3 {
				put(client, time.Duration(client*7+visit*600+page*9)*time.Second)
			}
		}
	}
	for script := range 2 {
		for i := range 500 {
			put(200+script, time.Duration(script+1)*20*time.Minute+time.Duration(i)*20*time.Millisecond)
		}
	}
	var log strings.Builder
	for _, at := range slices.Sorted(maps.Keys(lines)) {
		log.WriteString(lines[at])
	}
	result, err := run(t, log.String(), Options{Windows: []time.Duration{time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	if s := result.Windows[0].Suggested; s.Limit < 6 || s.Limit > 12 || s.KeysDenied != 2 {
		t.Errorf("limit %d, which denies %d keys; want 6 … 12 and the 2 scripts: %s", s.Limit, s.KeysDenied, s.Why)
	}
}
