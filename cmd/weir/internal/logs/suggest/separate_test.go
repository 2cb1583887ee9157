package suggest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// formats write one request of a log.
var formats = []struct {
	format accesslog.Format
	head   string
	line   func(key string, at time.Time) string
}{
	{accesslog.Common, "", func(key string, at time.Time) string {
		return fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5\n", key, at.Format("02/Jan/2006:15:04:05 -0700"))
	}},
	{accesslog.NginxJSON, "", func(key string, at time.Time) string {
		return fmt.Sprintf(`{"remote_addr":%q,"msec":"%d.%03d","request":"GET / HTTP/1.1","status":"200"}`+"\n", key, at.Unix(), at.Nanosecond()/1e6)
	}},
	{accesslog.Caddy, "", func(key string, at time.Time) string {
		return fmt.Sprintf(`{"level":"info","ts":%d.%06d,"logger":"http.log.access","msg":"handled request","request":{"client_ip":%q,"method":"GET","uri":"/"},"status":200}`+"\n", at.Unix(), at.Nanosecond()/1000, key)
	}},
	{accesslog.CloudFront, "#Version: 1.0\n#Fields: date time c-ip cs-method sc-status\n", func(key string, at time.Time) string {
		return at.Format("2006-01-02\t15:04:05\t") + key + "\tGET\t200\n"
	}},
}

// TestSuggestionsSeparateScripts plants ordinary clients and scripts. A suggestion denies at
// most 0.1 % of the ordinary requests, and at least 90 % of those that scripts send beyond
// the largest ordinary peak. In 100 logs with three windows each 1 to 2 % missed that:
// nightly jobs in logs of an hour look like slow scripts. These seeds have logs of 1 to 24
// hours in every format, each of at most 410,000 lines.
func TestSuggestionsSeparateScripts(t *testing.T) {
	needs.Time(t)
	missed, windows := 0, 0
	for _, seed := range []int{1001, 1003, 1012, 1018, 1020, 1034, 1036, 1043} {
		p, f := plant(uint64(seed)), formats[seed%len(formats)]
		result, err := run(t, p.log(seed%len(formats)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range result.Windows {
			windows++
			if problem := p.check(&result.Windows[i]); problem != "" {
				missed++
				t.Logf("seed %d, %s, %v: %s (%s)\n%s", seed, f.format, result.Windows[i].Window, problem, result.Windows[i].Suggested.Why, p.shape)
			}
		}
	}
	if missed*20 > windows {
		t.Errorf("%d of %d suggestions missed", missed, windows)
	}
}

// TestScriptsNextToPeopleStandApart plants scripts whose peaks are just above those of
// people, at 9 and 10 per second for instance.
func TestScriptsNextToPeopleStandApart(t *testing.T) {
	needs.Time(t)
	for _, seed := range []uint64{1, 5} {
		p := plantClose(seed)
		result, err := run(t, p.log(1), Options{Windows: []time.Duration{time.Second, 10 * time.Second, time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range result.Windows {
			if problem := p.check(&result.Windows[i]); problem != "" {
				t.Errorf("seed %d, %v: %s (%s)\n%s", seed, result.Windows[i].Window, problem, result.Windows[i].Suggested.Why, p.shape)
			}
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

// log returns the log in one of formats.
func (p *planted) log(format int) string {
	f := formats[format]
	var log strings.Builder
	log.WriteString(f.head)
	for _, e := range p.all {
		log.WriteString(f.line(e.key, time.UnixMicro(e.at).UTC()))
	}
	return log.String()
}

// check returns the fault of a suggestion, or "".
func (p *planted) check(w *Window) string {
	byKey := map[string][]request{}
	for _, e := range p.all {
		byKey[e.key] = append(byKey[e.key], request{e.at, 1})
	}
	var h history
	denied := func(limit int64, all []request) int64 {
		var slots replay.Slots
		for _, r := range all {
			slots.Add(r.at, false)
		}
		n, _ := h.denied(w.Window.Microseconds(), limit, all, newSeries(&slots))
		return n
	}
	window, peak := w.Window.Microseconds(), int64(0)
	for key, all := range byKey {
		if !p.script[key] {
			peak = max(peak, h.peak(window, all))
		}
	}
	var ordinary, harmed, excess, caught int64
	for key, all := range byKey {
		if p.script[key] {
			excess += denied(peak, all)
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
