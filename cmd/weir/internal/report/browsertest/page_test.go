package browsertest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/weirlimit/weir/cmd/weir/internal/report"
	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestPolicyForbidsConnections adds to the page the elements that would fetch, as markup in
// a log would if it were not text.
func TestPolicyForbidsConnections(t *testing.T) {
	var connections atomic.Int32
	address := listentest.Serve(t, func(net.Conn) { connections.Add(1) })
	b := open(t, write(t, sample()), wide)
	violations := eval[[]string](b, fmt.Sprintf(`new Promise((done) => {
		const all = [];
		addEventListener('securitypolicyviolation', (e) => { all.push(e.effectiveDirective); if (all.length === 5) done(all); });
		const url = 'http://%s/';
		fetch(url).catch(() => {});
		for (const tag of ['img', 'script', 'link']) {
			const e = document.createElement(tag);
			e.rel = 'stylesheet';
			e.src = e.href = url;
			document.body.append(e);
		}
		const inline = document.createElement('script');
		inline.textContent = 'document.title = "broken"';
		document.body.append(inline);
	})`, address))
	slices.Sort(violations)
	if got := strings.Join(violations, " "); got != "connect-src img-src script-src-elem script-src-elem style-src-elem" {
		t.Errorf("violations: %s", got)
	}
	b.forgive()
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if title := eval[string](b, `document.title`); title != "weir suggest" {
		t.Errorf("an inline script ran: the title is %q", title)
	}
}

// shows compares the line, the numbers and the chart over time with a candidate.
func (b *tab) shows(v *report.View, c report.Candidate) {
	b.t.Helper()
	digits := func(s string) string { return strings.ReplaceAll(s, ",", "") }
	all, denied := sum(v.Timeline.Allowed)+sum(v.Timeline.Denied), sum(c.Series)
	chart := digits(eval[string](b, "document.querySelector(`"+view+".time`).getAttribute('aria-label')"))
	got := []string{b.text(view + `code.chosen`), digits(b.text(view + `.n-denied`)), digits(b.text(view + `.n-keys`))}
	want := []string{fmt.Sprintf("%d per minute per ip", c.Limit), strconv.FormatInt(c.Denied, 10), strconv.FormatInt(c.KeysDenied, 10)}
	if part := fmt.Sprintf("%d allowed and %d denied at a limit of %d.", all-denied, denied, c.Limit); !slices.Equal(got, want) || !strings.Contains(chart, part) {
		b.t.Errorf("limit %d: got %q and %q, want %q and %q", c.Limit, got, chart, want, part)
	}
}

func sum(all []int64) (n int64) {
	for _, x := range all {
		n += x
	}
	return n
}

// marked returns the candidate of the marked limit.
func marked(v *report.View) report.Candidate {
	return report.Candidate{Limit: v.Limit, Denied: v.Denied, KeysDenied: v.KeysDenied, Series: v.Timeline.Denied}
}

func TestSliderShowsEachCandidate(t *testing.T) {
	v := &sample().Views[0]
	b := open(t, write(t, sample()), wide)
	all := slices.Clone(v.Candidates)
	at, _ := slices.BinarySearchFunc(all, v.Limit, func(c report.Candidate, l int64) int { return int(c.Limit - l) })
	all = slices.Insert(all, at, marked(v))
	b.shows(v, marked(v))

	// The keyboard visits every candidate.
	const slider = view + `.slide input`
	b.slide(kb.Home)
	for _, c := range all {
		b.shows(v, c)
		spoken := eval[string](b, "document.querySelector(`"+slider+"`).getAttribute('aria-valuetext')")
		if !strings.Contains(strings.ReplaceAll(spoken, ",", ""), fmt.Sprintf("%d requests per minute: %d request", c.Limit, c.Denied)) {
			t.Errorf("a screen reader has %q for %d", spoken, c.Limit)
		}
		b.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	b.shows(v, all[len(all)-1])
	b.do(chromedp.KeyEvent(kb.PageDown))
	b.shows(v, all[len(all)-6])

	// A step of an assistive technology changes the value by one.
	eval[bool](b, "(() => { const i = document.querySelector(`"+slider+"`); i.stepDown(); return i.dispatchEvent(new Event('input', {bubbles: true})); })()")
	b.shows(v, all[len(all)-7])

	// The button returns to the mark.
	b.click(view + `.reset`)
	b.shows(v, marked(v))

	// The mouse moves the limit on the slider and in the chart.
	box := eval[[]float64](b, "(() => { const r = document.querySelector(`"+slider+"`).getBoundingClientRect(); return [r.left, r.right, r.top + r.height / 2]; })()")
	b.do(chromedp.MouseClickXY(box[1]-11, box[2]))
	b.shows(v, all[len(all)-1])
	b.do(chromedp.MouseClickXY(box[0]+11, box[2]+150))
	b.shows(v, all[0])
}

// TestChartWithoutSeriesStaysAtTheMark: candidates without their denials over time move the
// numbers alone.
func TestChartWithoutSeriesStaysAtTheMark(t *testing.T) {
	p := sample()
	v := &p.Views[0]
	for i := range v.Candidates {
		v.Candidates[i].Series = nil
	}
	b := open(t, write(t, p), wide)
	label := "document.querySelector(`" + view + ".time`).getAttribute('aria-label')"
	before := eval[string](b, label)
	if b.slide(kb.Home); eval[string](b, label) != before {
		t.Errorf("the chart has become %q, and was %q", eval[string](b, label), before)
	}
}

// TestHoursOfTheDay counts the bars, and compares the table with the page's data.
func TestHoursOfTheDay(t *testing.T) {
	p := sample()
	p.Hours[3] = 0
	for _, width := range []int64{390, 1400} {
		b := open(t, write(t, p), screen{width: width, height: 900})
		if got := b.count(`svg.hours rect`); got != 23 {
			t.Errorf("width %d: %d bars, want 23", width, got)
		}
		if got, want := eval[string](b, "document.querySelector(`svg.hours`).getAttribute('aria-label')"), "most at 06:00, 89,899 requests"; !strings.Contains(got, want) {
			t.Errorf("width %d: the chart is %q, want %q", width, got, want)
		}
		b.wants(map[string]string{"table.hours th": "Hour, Europe/Berlin"})
	}
}

func TestTablesAreSorted(t *testing.T) {
	b := open(t, write(t, sample()), wide)
	column := func(cell int) []string {
		return eval[[]string](b, fmt.Sprintf("[...document.querySelectorAll(`.view:not([hidden]) .keys tbody tr`)].map((r) => r.cells[%d].dataset.v || r.querySelector('bdi').textContent)", cell))
	}
	numbers := func(cell int) (all []int) {
		for _, s := range column(cell) {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
		return all
	}
	button := func(cell int) string {
		return fmt.Sprintf(view+`.keys th:nth-child(%d) button`, cell+1)
	}
	before := numbers(3)
	b.click(button(3))
	if got := numbers(3); !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) || slices.Equal(got, before) {
		t.Errorf("requests after one click: %v", got[:8])
	}
	b.wants(map[string]string{view + `.keys [aria-sort="descending"]`: "Requests"})
	b.click(button(3))
	if got := numbers(3); !slices.IsSorted(got) {
		t.Errorf("requests after two clicks: %v", got[:8])
	}
	b.do(chromedp.Focus(chromedp.CSS(button(0))), chromedp.KeyEvent(kb.Enter))
	keys := column(0)
	if got := keys[:3]; !slices.Equal(got, []string{"198.51.100.7", "198.51.100.8", "198.51.100.9"}) {
		t.Errorf("keys by the keyboard: %q", got)
	}
	if len(keys) != report.MaxRows {
		t.Errorf("%d rows after sorting, want %d", len(keys), report.MaxRows)
	}
}

func TestMarkupInTextStaysText(t *testing.T) {
	url := write(t, hostilePage())
	b := open(t, url, wide)
	for selector, want := range map[string]int{
		"script": 2, "style": 1, "img, iframe, object, embed, link, base, form": 0, "[onerror], [onload]": 0, ".view svg svg": 0,
	} {
		if got := b.count(selector); got != want {
			t.Errorf("%s: %d elements, want %d", selector, got, want)
		}
	}
	keys := eval[[]string](b, "[...document.querySelectorAll(`.view:not([hidden]) .keys bdi`)].map((e) => e.textContent)")
	for i, want := range []string{
		hostile[0], hostile[1], hostile[2], hostile[3],
		`\u202egnp.exe`, `a\u0000b\u001b[31m\u2028c\ufeff`, `\ufffd\ufffd`, hostile[7], hostile[8], hostile[9], hostile[10],
	} {
		if keys[i] != want {
			t.Errorf("key %d is shown as %q, want %q", i, keys[i], want)
		}
	}
	b.slide(kb.Home)
	b.wants(map[string]string{view + `code.chosen`: "1 " + hostile[0]})
}

// axe is the source of axe-core, once a test has needed it.
var axe []byte

// accessible fails the test if axe finds an error.
func (b *tab) accessible() {
	b.t.Helper()
	if len(axe) == 0 {
		var err error
		axe, err = os.ReadFile(filepath.Join(needs.Modules(b.t, "testdata"), "node_modules/axe-core/axe.min.js"))
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.do(chromedp.Evaluate[chromedp.Void](string(axe)))
	r := eval[struct{ Violations, Passes []string }](b, `axe.run(document).then((r) => ({
		violations: r.violations.map((v) => v.id + ': ' + v.help + '\n' + v.nodes.map((n) => '  ' + n.html + ' ' + n.failureSummary).join('\n')),
		passes: r.passes.map((p) => p.id)}))`)
	if len(r.Violations) > 0 {
		b.t.Errorf("axe: %s", strings.Join(r.Violations, "\n"))
	}
	if len(r.Passes) < 20 {
		b.t.Errorf("axe applied only %q", r.Passes)
	}
}

func TestAxeFindsNoViolations(t *testing.T) {
	replayed := sample()
	replayed.Views = replayed.Views[:1]
	replayed.Views[0].Peaks, replayed.Views[0].Candidates, replayed.Views[0].Limit = nil, nil, 0
	replayed.Views[0].Limits = []report.Limit{{Name: "limit", Line: "5 per minute per ip", Denied: 3}}
	for _, p := range []*report.Page{sample(), replayed} {
		url := write(t, p)
		for _, s := range []screen{wide, {width: 1400, height: 1000, dark: true}, {width: 390, height: 844}, {width: 390, height: 844, dark: true}} {
			b := open(t, url, s)
			b.accessible()
		}
	}
}

// overlaps returns the texts of the charts that cover each other or leave the page.
func (b *tab) overlaps() []string {
	b.t.Helper()
	return eval[[]string](b, `(() => {
		const all = [], wide = document.documentElement.clientWidth;
		for (const svg of document.querySelectorAll('.view:not([hidden]) .chart, .hours.chart')) {
			const texts = [...svg.querySelectorAll('text')].map((e) => [e.textContent, e.getBoundingClientRect()]);
			texts.forEach(([text, a], i) => {
				if (a.left < 0 || a.right > wide) all.push(text + ' leaves the page');
				for (const [other, b] of texts.slice(i + 1)) {
					const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
					const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
					if (x > 0 && y > 4) all.push(text + ' | ' + other);
				}
			});
		}
		if (document.documentElement.scrollWidth > wide) all.push('the page is wider than the window');
		return all;
	})()`)
}

func TestTextsDoNotOverlap(t *testing.T) {
	url := write(t, sample())
	for _, width := range []int64{390, 768, 1400} {
		b := open(t, url, screen{width: width, height: 900})
		b.slide(kb.Home)
		for i := range len(sample().Views[0].Candidates) + 1 {
			if got := b.overlaps(); len(got) > 0 {
				t.Errorf("width %d, candidate %d: %q", width, i, got)
			}
			b.do(chromedp.KeyEvent(kb.ArrowRight))
		}
	}
}

// TestExtremeNumbers opens reports of almost nothing and of as much as a log can have.
func TestExtremeNumbers(t *testing.T) {
	const most = 1 << 53
	one := report.Timeline{Start: day, Width: time.Second, Allowed: []int64{1}, Denied: []int64{0}}
	for name, v := range map[string]report.View{
		"nothing":        {},
		"one request":    {Limit: 1, Line: "1 per second per ip", Keys: 1, Requests: 1, Peaks: []report.Bin{{From: 1, To: 1, Keys: 1}}, Candidates: []report.Candidate{{Limit: 1}}, Timeline: one},
		"two candidates": {Limit: 2, Line: "2 per second per ip", Keys: 1, Requests: 1, Peaks: []report.Bin{{From: 1, To: 1, Keys: 1}}, Candidates: []report.Candidate{{Limit: 1}}, Timeline: one},
		"limit 0": {Limit: 0, Line: "0 per second per ip", Keys: 1, Requests: 1, Denied: 1, KeysDenied: 1, Peaks: []report.Bin{{From: 0, To: 0, Keys: 1}},
			Candidates: []report.Candidate{{Limit: 0, Denied: 1, KeysDenied: 1}, {Limit: 1}}, Timeline: report.Timeline{Start: day, Width: time.Second, Allowed: []int64{0}, Denied: []int64{1}}},
		"as much as possible": {Limit: most / 2, Line: fmt.Sprintf("%d bytes per week per ip", int64(most/2)), Keys: most, Requests: most, Denied: most / 2, KeysDenied: most / 3,
			Low: most / 2, High: most - 1, Per: "bytes per week", Apart: true, LimitWord: "suggested",
			Peaks:      []report.Bin{{From: 0, To: 0, Keys: most / 2}, {From: 1, To: 1, Keys: 1}, {From: most - 1, To: most, Keys: most / 2}},
			Candidates: []report.Candidate{{Limit: 0, Denied: most, KeysDenied: most}, {Limit: most / 2, Denied: most / 2, KeysDenied: most / 3}, {Limit: most}},
			Timeline:   report.Timeline{Start: time.Unix(0, 0), Width: 1 << 30 * time.Second, Allowed: []int64{most / 2, 0}, Denied: []int64{most / 2, 1}}},
	} {
		v.Name, v.Reason = name, name+"."
		v.Rows = []report.Row{{Key: strings.Repeat("long ", 40), Peak: most, Allowed: most, Denied: v.Denied}}
		for _, width := range []int64{390, 1400} {
			b := open(t, write(t, &report.Page{Title: "weir suggest", Views: []report.View{v}}), screen{width: width, height: 900})
			if eval[bool](b, `/NaN|Infinity|undefined/.test(document.body.innerHTML.replace(/<script>[^]*/, ''))`) {
				t.Errorf("%s: a number is missing", name)
			}
			if got := b.overlaps(); len(got) > 0 {
				t.Errorf("%s, width %d: %q", name, width, got)
			}
		}
	}
}

func TestCopyButton(t *testing.T) {
	url := write(t, sample())
	line := sample().Views[0].Line
	const button, status = view + `.copy`, view + `.copied`

	b := open(t, url, wide)
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		if _, err := cdp.Call(b, chromedp.FromContext(b).Browser, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted,
		}); err != nil {
			t.Fatal(err)
		}
	}
	b.click(button)
	b.until("document.querySelector(`" + status + "`).textContent === 'Copied'")
	if got := eval[string](b, `navigator.clipboard.readText()`); got != line {
		t.Errorf("the clipboard has %q, want %q", got, line)
	}

	// Without the clipboard's interface the line is selected and copied by the command.
	for _, lacks := range []string{
		`Object.defineProperty(navigator, 'clipboard', {value: undefined})`,
		`Object.defineProperty(navigator, 'clipboard', {value: undefined}); document.execCommand = () => false`,
	} {
		b = open(t, url, wide)
		eval[any](b, lacks)
		b.click(button)
		b.until("document.querySelector(`" + status + "`).textContent !== ''")
		if got := eval[string](b, `getSelection().toString()`); got != line {
			t.Errorf("the selection is %q, want %q", got, line)
		}
	}
	if got := b.text(status); !strings.HasPrefix(got, "Selected: press Ctrl+C") {
		t.Errorf("without any way to copy, the status is %q", got)
	}
}

func TestPrintIsLightAndWithoutControls(t *testing.T) {
	b := open(t, write(t, sample()), screen{width: 700, height: 1000, dark: true, media: "print"})
	if got := eval[string](b, `getComputedStyle(document.body).backgroundColor`); got != "rgb(255, 255, 255)" {
		t.Errorf("the background is %s", got)
	}
	visible := eval[[]string](b, `[...document.querySelectorAll('button, input')].filter((e) => e.offsetParent && !e.closest('th')).map((e) => e.outerHTML)`)
	if len(visible) > 0 {
		t.Errorf("controls on paper: %q", visible)
	}
	pdf := get(b, chromedp.PrintToPDF(chromedp.PDFPrintBackground()))
	if !strings.HasPrefix(string(pdf), "%PDF-") {
		t.Error("no PDF")
	}
}

func TestEssentialsAreReadableWithoutScript(t *testing.T) {
	b := open(t, "about:blank", wide)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p := sample()
	b.do(chromedp.Navigate(write(t, p)))
	b.forgive() // the request of the file itself
	text := eval[string](b, `document.body.innerText`)
	v := p.Views[0]
	for _, want := range []string{
		v.Reason, v.Line, p.Views[1].Reason, p.Views[1].Line, "Requests denied\n152,100\n12.6 % of 1,204,365",
		"Hour, Europe/Berlin", "06:00\t89,899",
		"1,266 (suggested)\t152,100\t12.6 %\t7\t0.09 %", "203.0.113.9", "access.log.1.gz as combined", "12 of them are not readable", "2026-03-05 08:00:00 UTC",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without a script the page lacks %q", want)
		}
	}
	if got := eval[int](b, `[...document.querySelectorAll('button, input')].filter((e) => e.offsetParent).length`); got != 0 {
		t.Errorf("%d controls without effect", got)
	}
}

func TestTabsAndThemes(t *testing.T) {
	p := sample()
	b := open(t, write(t, p), wide)
	b.click(`.tabs button:nth-child(2)`)
	b.wants(map[string]string{view + `h1`: p.Views[1].Reason})
	if got := b.count(`.view:not([hidden])`); got != 1 {
		t.Errorf("%d results are visible", got)
	}
	background := func() string { return eval[string](b, `getComputedStyle(document.body).backgroundColor`) }
	light := background()
	b.click(`#theme`)
	dark := background()
	b.look(screen{width: 1400, height: 1000, dark: true})
	if got := background(); light == dark || got != dark {
		t.Errorf("light is %s, dark is %s, and %s if the system is dark too", light, dark, got)
	}
	b.click(`#theme`)
	if got := background(); got != light {
		t.Errorf("light on a dark system is %s, want %s", got, light)
	}
}
