package report

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// text returns a report as text.
func text(t *testing.T, p *Page) string {
	t.Helper()
	data, err := Render(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestPolicyHasTheHashesOfStyleAndScript(t *testing.T) {
	page := text(t, &Page{Title: "weir suggest"})
	for tag, directive := range map[string]string{"style": "style-src", "script": "script-src"} {
		_, rest, _ := strings.Cut(page, "\n<"+tag+">")
		inline, _, found := strings.Cut(rest, "</"+tag+">")
		if !found {
			t.Fatalf("the page has no %s", tag)
		}
		want := directive + " '" + strings.ReplaceAll(hash(inline), "+", "&#43;") + "'"
		if !strings.Contains(page, want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	if !strings.Contains(page, `content="default-src 'none'; `) {
		t.Error("the policy permits other sources")
	}
	if found := regexp.MustCompile(`(?i)(src|href|action|url)\s*[=(]|https?://`).FindAllString(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), -1); found != nil {
		t.Errorf("the page refers to other files: %q", found)
	}
}

// TestFileIsBounded writes the report of 2,000,000 keys with long names that are escaped.
func TestFileIsBounded(t *testing.T) {
	const keys = 2_000_000
	long := strings.Repeat("<&\u202e\U000e0001", 1<<14)
	p := &Page{Title: long, Requests: 1 << 52, From: time.Now(), To: time.Now(), Notes: []string{long, long}}
	for range 500 {
		p.Sources = append(p.Sources, Source{long, long})
	}
	for range 50 {
		v := View{Name: long, Reason: long, Line: long, Per: long, Limit: 7, Keys: keys, LimitWord: "suggested"}
		for i := range int64(500) {
			v.Peaks = append(v.Peaks, Bin{i + 1, i + 1, 1 << 50})
			v.Limits = append(v.Limits, Limit{long, long, 1 << 50})
			v.Timeline.Allowed = append(v.Timeline.Allowed, 1<<50)
			v.Timeline.Denied = append(v.Timeline.Denied, 1<<50)
			r := Row{Key: long, Peak: 1 << 50, Allowed: 1 << 50, Denied: 1 << 50, FirstDenied: time.Now()}
			v.Rows = append(v.Rows, r)
		}
		for i := range int64(200) {
			v.Candidates = append(v.Candidates, Candidate{Limit: i + 1, Denied: 1 << 50, KeysDenied: 1 << 50})
		}
		p.Views = append(p.Views, v)
	}
	page := text(t, p)
	if len(page) > MaxBytes {
		t.Errorf("%d bytes, want at most %d", len(page), MaxBytes)
	}
	for _, want := range []string{`The first [1-9]\d* of 2,000,000`, "30 results are not shown", "and 480 more"} {
		if !regexp.MustCompile(want).MatchString(page) {
			t.Errorf("the page lacks %q", want)
		}
	}
	few := text(t, &Page{Views: []View{{Keys: keys, Rows: p.Views[0].Rows}}})
	if got := strings.Count(few, `<td class="key">`); got != MaxRows || !strings.Contains(few, "The first 200 of 2,000,000 keys.") {
		t.Errorf("%d rows, want %d and their number", got, MaxRows)
	}
}

func TestMaskedKeysHaveOneName(t *testing.T) {
	rows := func(keys ...string) (all []Row) {
		for _, k := range keys {
			all = append(all, Row{Key: k, Allowed: 1})
		}
		return all
	}
	p := &Page{Views: []View{{Rows: rows("ann", "bob")}, {Rows: rows("bob", "carla", "ann")}}}
	shown := regexp.MustCompile(`<bdi>(.*?)</bdi>`)
	names := func() (all []string) {
		for _, m := range shown.FindAllStringSubmatch(text(t, p), -1) {
			all = append(all, m[1])
		}
		return all
	}
	if got, want := strings.Join(names(), " "), "ann bob bob carla ann"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p.MaskKeys = true
	if got, want := strings.Join(names(), ", "), "key 1, key 2, key 2, key 3, key 1"; got != want || strings.Contains(text(t, p), "carla") {
		t.Errorf("got %s, want %s and no key elsewhere", got, want)
	}
}

func TestShare(t *testing.T) {
	for _, tc := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "0 %"}, {0, 7, "0 %"}, {7, 7, "100 %"}, {1, 3, "33.3 %"}, {1, 2, "50 %"}, {1, 400, "0.25 %"},
		{1, 1e6, "< 0.01 %"}, {999_999, 1e6, "> 99.9 %"}, {999, 1000, "99.9 %"},
	} {
		if got := share(tc.part, tc.whole); got != tc.want {
			t.Errorf("%d of %d: got %s, want %s", tc.part, tc.whole, got, tc.want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1 << 53: "9,007,199,254,740,992"} {
		if got := grouped(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
