package browsertest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/report"
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
	p.Views = append(p.Views, sampleView("minute", 60, 1.4), sampleView("hour", 700, 1.2))
	return p
}

// sampleView returns the result for one window.
func sampleView(window string, typical, sigma float64) report.View {
	const requests = 1204365
	rng := rand.New(rand.NewPCG(1, 2))
	var peaks []int64
	for range 8000 {
		peaks = append(peaks, max(1, int64(math.Exp(rng.NormFloat64()*sigma)*typical/40)))
	}
	ordinary := slices.Max(peaks)
	for i := range 7 {
		peaks = append(peaks, ordinary*int64(6+3*i))
	}
	limit := ordinary * 3
	v := report.View{
		Name: "1 " + window, Per: "requests per " + window, LimitWord: "suggested", Limit: limit,
		Line: fmt.Sprintf("%d per %s per ip", limit, window), Requests: requests, Keys: int64(len(peaks)),
		Reason: fmt.Sprintf("%d per %s per ip leaves every ordinary key a margin of three times its fullest %s, and denies most of the requests of 7 keys that send at least %d.", limit, window, window, ordinary*6),
	}
	v.Low, v.High, v.Apart = ordinary, ordinary*6, true
	for from := int64(1); from <= peaks[len(peaks)-1]; {
		to := max(from, int64(float64(from)*1.3))
		b := report.Bin{From: from, To: to}
		for _, n := range peaks {
			if from <= n && n <= to {
				b.Keys++
			}
		}
		if b.Keys > 0 {
			v.Peaks = append(v.Peaks, b)
		}
		from = to + 1
	}
	steps := 104
	v.Timeline = report.Timeline{From: day, Step: 15 * time.Minute, Allowed: make([]int64, steps), Denied: make([]int64, steps)}
	for i := range steps {
		v.Timeline.Allowed[i] = 9700 + int64(4000*math.Sin(float64(i)/16)) + rng.Int64N(900)
		if i > 40 && i < 52 || i == 80 {
			v.Timeline.Denied[i] = 11000 + rng.Int64N(3000)
		}
		v.Denied += v.Timeline.Denied[i]
	}
	v.KeysDenied = 7
	for c := 1.0; c < float64(ordinary)*30; c *= 1.6 {
		l := int64(math.Ceil(c))
		if len(v.Candidates) > 0 && v.Candidates[len(v.Candidates)-1].Limit >= l {
			continue
		}
		cand := report.Candidate{Limit: l}
		for _, n := range peaks {
			if n > l {
				cand.KeysDenied++
			}
		}
		cand.Denied = int64(float64(requests) * (0.65*math.Exp(-c/typical*6) + 0.15*max(0, 1-c/float64(ordinary*25))))
		if cand.KeysDenied == 0 {
			cand.Denied = 0
		}
		for i := range steps {
			cand.Series = append(cand.Series, cand.Denied/int64(steps)*int64(i%2))
		}
		v.Candidates = append(v.Candidates, cand)
	}
	for i := range 300 {
		r := report.Row{Key: fmt.Sprintf("198.51.100.%d", i), Peak: ordinary - int64(i), Allowed: 4000 - int64(i*37%300)*7}
		if i < 7 {
			r.Key, r.Peak = fmt.Sprintf("203.0.113.%d", 9+i), ordinary*int64(24-3*i)
			r.Denied, r.FirstDenied = 40000-int64(i)*5000, day.Add(time.Duration(i+10)*time.Hour+7*time.Second)
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
		v.Name, v.Reason, v.Also, v.Per = hostile[1], hostile[1], hostile[0], hostile[2]
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
	var b bytes.Buffer
	if err := report.Write(&b, p); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + name
}
