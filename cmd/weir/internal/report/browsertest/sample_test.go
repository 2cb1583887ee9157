package browsertest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var day = time.Date(2026, 3, 5, 8, 0, 0, 0, time.UTC)

// sample returns a report of two windows, with 8,000 ordinary clients and seven scripts.
func sample() *report.Page {
	p := &report.Page{
		Title:   "weir suggest",
		Sources: []report.Source{{Name: "access.log", Format: "combined"}, {Name: "access.log.1.gz", Format: "combined"}},
		Lines:   1204377, Bad: 12, Requests: 1204365, From: day, To: day.Add(26 * time.Hour),
		Hours: make([]int64, 24), Zone: "Europe/Berlin",
	}
	for hour := range p.Hours {
		p.Hours[hour] = 50000 + int64(40000*math.Sin(float64(hour)/4))
	}
	p.Views = append(p.Views, sampleView("minute", 422), sampleView("hour", 3100))
	return p
}

// sampleView returns the result for one window, in which ordinary clients have peaks up to a
// number and scripts have more than six times of it.
func sampleView(window string, ordinary int64) report.View {
	const requests, scripts, steps = 1204365, 7, 104
	limit := ordinary * 3
	v := report.View{
		Name: "1 " + window, Per: "requests per " + window, LimitWord: "suggested", Limit: limit,
		Line: fmt.Sprintf("%d per %s per ip", limit, window), Requests: requests, Keys: 8000 + scripts, KeysDenied: scripts,
		Reason: fmt.Sprintf("%d per %s per ip leaves every ordinary key a margin of three times its fullest %s, and denies most of the requests of 7 keys that send at least %d.", limit, window, window, ordinary*6),
		Low:    ordinary, High: ordinary * 6, Apart: true,
		Timeline: report.Timeline{Start: day, Width: 15 * time.Minute, Allowed: make([]int64, steps), Denied: make([]int64, steps)},
	}
	for from := int64(1); from <= ordinary; from = from*13/10 + 1 {
		v.Peaks = append(v.Peaks, report.Bin{From: from, To: min(from*13/10, ordinary), Keys: 1600 / from})
	}
	for i := range int64(scripts) {
		v.Peaks = append(v.Peaks, report.Bin{From: ordinary * (6 + 3*i), To: ordinary * (6 + 3*i), Keys: 1})
	}
	for i := range int64(steps) {
		v.Timeline.Allowed[i] = 9700 + i*i*97%4000
		if i >= 40 && i < 52 || i == 80 {
			v.Timeline.Denied[i] = 11700
		}
		v.Denied += v.Timeline.Denied[i]
	}
	for limit := int64(1); limit < ordinary*25; limit = limit*8/5 + 1 {
		c := report.Candidate{Limit: limit, Denied: requests / (limit + 1), KeysDenied: max(1, 8000/limit), Series: make([]int64, steps)}
		for i := range c.Series {
			c.Series[i] = c.Denied / steps * int64(i%2)
		}
		v.Candidates = append(v.Candidates, c)
	}
	for i := range int64(300) {
		r := report.Row{Key: fmt.Sprintf("198.51.100.%d", i), Peak: ordinary - i, Allowed: 4000 - i*37%300*7}
		if i < scripts {
			r.Key, r.Peak = fmt.Sprintf("203.0.113.%d", 9+i), ordinary*(24-3*i)
			r.Denied, r.FirstDenied = 40000-i*5000, day.Add(time.Duration(i+10)*time.Hour+7*time.Second)
		}
		v.Rows = append(v.Rows, r)
	}
	return v
}

// hostile are keys with markup, quotes and characters that change a line.
var hostile = []string{
	`<img src=x onerror="alert(1)">`, `</script><script>document.title='broken'</script>`, `"><svg onload=alert(1)>`,
	`'"` + "`${1}{{.}}", "\u202egnp.exe", "a\x00b\x1b[31m\u2028c\ufeff", "\xff\xfe", `<!--`, `]]>`, "javascript:alert(1)", "&lt;b&gt;",
}

// hostilePage returns a report in which every text is hostile.
func hostilePage() *report.Page {
	p := sample()
	p.Title, p.Notes = hostile[0], hostile
	for _, h := range hostile {
		p.Sources = append(p.Sources, report.Source{Name: h, Format: h})
	}
	for i := range p.Views {
		v := &p.Views[i]
		v.Name, v.Reason, v.Also, v.Per = hostile[1], hostile[1], hostile, hostile[2]
		v.Line = fmt.Sprintf("%d %s", v.Limit, hostile[0])
		v.Limits = []report.Limit{{Name: hostile[0], Line: hostile[1], Denied: 1}}
		for k := range v.Rows {
			v.Rows[k].Key = hostile[k%len(hostile)]
		}
	}
	return p
}

// write writes a report to a file and returns its URL.
func write(t *testing.T, p *report.Page) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report.html")
	text, err := report.Render(p)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.WriteFile(name, text, 0o600))
	return "file://" + name
}
