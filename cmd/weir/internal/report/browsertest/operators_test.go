package browsertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// policies are those of the tests of the operators' page.
const policies = `version: 1
policies:
  login:
    about: Guesses of a password.
    limit: "3 per minute per user, then block 10m"
  api:
    limits: {user: 5 per minute per user, all: 100_000 per hour}
    plan-by: plan
    plans: {pro: {user: 50 per minute}}
  trial: {limit: 2 per minute per user, shadow: true}
  huge: {limit: 2_000_000_000_000_000 units per day per user}
  odd: {limit: 1 per hour per text}
  render: {limit: "2 at once per user, for at most 5m"}
  mail: {limit: "10 per hour per user, burst 20"}
  search: {limit: 2 per minute per ip, keys: {ip: address}}
  pair: {limit: 2 per minute per tenant per user}
`

// site is a weir serve with the page.
type site struct {
	t     *testing.T
	url   string // without a slash at the end
	file  string // of the policies
	token string
}

// serve starts weir serve with arguments, on a free port.
func serve(t *testing.T, args ...string) *site {
	t.Helper()
	s, _ := serveAt(t, "127.0.0.1:0", args...)
	return s
}

func serveAt(t *testing.T, address string, args ...string) (*site, *program.Server) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	must.Do(t, os.WriteFile(file, []byte(policies), 0o600))
	all := append([]string{"serve", "--listen", address, "--linger", "0", "--policies", file}, args...)
	s := program.Serve(t, exec.Command(program.Path(t), all...))
	return &site{t: t, url: "http://" + s.Main, file: file}, s
}

// send sends a call and returns its answer.
func (s *site) send(method, path, body string) string {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	must.Do(s.t, err)
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	answer, err := http.DefaultClient.Do(r)
	must.Do(s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.Do(s.t, err)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s %s: %s", method, path, body, text)
	}
	return string(text)
}

// try makes attempts of a key.
func (s *site) try(times int, policy string, key map[string]string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"policy": policy, "key": key})
	must.Do(s.t, err)
	for range times {
		s.send("POST", "/v1/check", string(body))
	}
}

// traffic makes calls of every kind.
func (s *site) traffic() {
	s.t.Helper()
	s.try(7, "login", map[string]string{"user": "mallory"})
	s.try(2, "login", map[string]string{"user": "ann"})
	s.try(9, "api", map[string]string{"user": "bob", "plan": "free"})
	s.try(12, "api", map[string]string{"user": "carol", "plan": "pro"})
	s.try(5, "trial", map[string]string{"user": "dave"})
	s.send("POST", "/v1/record", `{"policy":"huge","key":{"user":"erin"},"n":1999999999999999}`)
	s.send("POST", "/v1/check", `{"policy":"api","key":{"user":"gina"},"n":2,"max_wait_ms":60000}`)
	s.send("POST", "/v1/reserve", `{"policy":"render","key":{"user":"frank"},"ttl_ms":300000}`)
}

// views are the addresses of all views, for the policies and the traffic above.
var views = []struct{ name, hash string }{
	{"policies", "#/policies"},
	{"keys", "#/keys"},
	{"key", "#/key/login?user=mallory"},
	{"waits", "#/key/api?user=bob&plan=free"},
	{"holds", "#/key/render?user=frank"},
	{"shadow", "#/key/trial?user=dave"},
	{"overrides", "#/overrides"},
	{"health", "#/health"},
	{"try", "#/try?policy=login&key.user=mallory"},
	{"nowhere", "#/nowhere"},
}

// operate opens the page of a site at a view, and waits until it is shown.
func (s *site) operate(look screen, hash string) *tab {
	s.t.Helper()
	b := newTab(s.t, look)
	b.origin = s.url
	b.visit(s.url + "/" + hash)
	b.shown(hash)
	return b
}

// shown waits until a view has its numbers.
func (b *tab) shown(hash string) {
	b.t.Helper()
	b.until("document.querySelector('main').dataset.shown === `" + hash + "`")
}

// change shows another view.
func (b *tab) change(hash string) {
	b.t.Helper()
	eval[any](b, "void (location.hash = `"+hash+"`)")
	b.shown(hash)
}

// grouped is a number as the page shows it.
func grouped(n json.Number) string {
	digits := n.String()
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// stats is the answer to GET /v1/stats, as far as the tests read it.
type stats struct {
	Policies []struct {
		Policy        string
		Total, Recent map[string]json.Number
	}
}

// TestPageShowsTheNumbersOfTheAPI compares each number of the policies and the keys with the answers
// of the API after the same calls.
func TestPageShowsTheNumbersOfTheAPI(t *testing.T) {
	s := serve(t)
	b := s.operate(wide, "#/policies") // live updates bring the numbers
	s.traffic()
	var want stats
	must.Do(t, json.Unmarshal([]byte(s.send("GET", "/v1/stats", "")), &want))
	// The last call of the traffic: an update may come in the middle of it.
	b.until("document.querySelector(`[data-policy=render] [data-total=allowed]`).textContent.startsWith('1 ')")
	if len(want.Policies) != 4 {
		t.Fatalf("%d policies have calls: %+v", len(want.Policies), want)
	}
	for _, p := range want.Policies {
		for name, n := range p.Total {
			at := "[data-policy=" + p.Policy + "] "
			b.wants(map[string]string{
				at + "[data-total=" + name + "]":  grouped(n) + " since the start",
				at + "[data-recent=" + name + "]": grouped(p.Recent[name]),
			})
		}
	}
	b.change("#/keys")
	var top struct {
		Top, Used []struct{ Denials, Uses, Error json.Number }
	}
	must.Do(t, json.Unmarshal([]byte(s.send("GET", "/v1/top?n=50", "")), &top))
	var counts []string
	for _, k := range slices.Concat(top.Top, top.Used) {
		counts = append(counts, grouped(k.Denials+k.Uses))
	}
	got := eval[[]string](b, "[...document.querySelectorAll('table.keys tbody tr')].map((r) => r.cells[2].textContent)")
	if !slices.Equal(got, counts) || len(counts) < 6 {
		t.Errorf("the keys have %q, want %q", got, counts)
	}
}

// TestHealthShowsTheNumbersOfTheAPI compares the numbers of the store and of reservations.
func TestHealthShowsTheNumbersOfTheAPI(t *testing.T) {
	s := serve(t, "--max-memory", "64MiB")
	s.traffic()
	var reserved struct{ Reservation string }
	must.Do(t, json.Unmarshal([]byte(s.send("POST", "/v1/reserve", `{"policy":"render","key":{"user":"gina"}}`)), &reserved))
	s.send("POST", "/v1/settle", `{"reservation":"`+reserved.Reservation+`"}`)
	var want struct {
		Health struct {
			Decisions json.Number
			Memory    struct {
				Keys, Bytes, Rejected json.Number
				MaxBytes              json.Number `json:"max_bytes"`
			}
		}
		Policies []struct {
			Policy       string
			Reservations *struct{ Open, Opened, Settled, Ended, Expired json.Number }
		}
	}
	must.Do(t, json.Unmarshal([]byte(s.send("GET", "/v1/stats", "")), &want))
	b := s.operate(wide, "#/health")
	facts := eval[map[string]string](b, "Object.fromEntries([...document.querySelectorAll('main dt')].map((e) => [e.textContent, e.nextElementSibling.textContent]))")
	h := want.Health
	for name, text := range map[string]string{
		"Decisions in the last minute": grouped(h.Decisions),
		"Histories":                    grouped(h.Memory.Keys),
		"Memory":                       grouped(h.Memory.Bytes) + " bytes of " + grouped(h.Memory.MaxBytes),
		"Rejected for lack of memory":  grouped(h.Memory.Rejected),
	} {
		if facts[name] != text {
			t.Errorf("%s is %q, want %q", name, facts[name], text)
		}
	}
	rows := eval[[]string](b, "[...document.querySelectorAll('[aria-label=Reservations] tbody tr')].map((r) => [...r.cells].map((c) => c.textContent).join(' '))")
	var wanted []string
	for _, p := range want.Policies {
		if r := p.Reservations; r != nil {
			wanted = append(wanted, fmt.Sprint(p.Policy, " ", r.Open, " ", r.Opened, " ", r.Settled, " ", r.Ended, " ", r.Expired))
		}
	}
	if !slices.Equal(rows, wanted) || !slices.Contains(rows, "render 1 2 1 0 0") {
		t.Errorf("the reservations are %q, want %q", rows, wanted)
	}
}

// TestLongNumbersAreExact: a number of 16 digits loses none.
func TestLongNumbersAreExact(t *testing.T) {
	s := serve(t)
	s.traffic()
	b := s.operate(wide, "#/try?policy=huge&key.user=erin")
	b.click("main form button[type=submit]")
	b.until("document.querySelector('main .why')")
	answer := s.send("POST", "/v1/peek", `{"policy":"huge","key":{"user":"erin"}}`)
	const used = `"used":1999999999999999`
	if shown := strings.ReplaceAll(b.text("main pre[aria-label=Answer]"), `"used": "`, `"used":`); !strings.Contains(answer, used) || !strings.Contains(shown, used) {
		t.Errorf("the answer is %s, the page shows %s", answer, shown)
	}
}

// TestOneKey compares the history of a key with the API, and resets and blocks it.
func TestOneKey(t *testing.T) {
	s := serve(t)
	s.traffic()
	const user = `[data-limit=user] `
	b := s.operate(wide, "#/key/api?user=bob&plan=free")
	var want struct {
		Why    string
		Limits []struct {
			Used, Max, Remaining json.Number
			Entries              []struct{ N json.Number }
		}
	}
	must.Do(t, json.Unmarshal([]byte(s.send("GET", "/v1/keys/api?user=bob&plan=free", "")), &want))
	first := want.Limits[0]
	b.wants(map[string]string{
		user + ".facts dd":       fmt.Sprintf("%s of %s, %s remain", first.Used, first.Max, first.Remaining),
		user + ".badge.heavy":    "this limit binds",
		"main .lead .badge":      "denied",
		user + "tbody td.text":   "entry",
		"[data-limit=all] .soft": "all callers together",
	})
	if got := b.count(user + "tbody tr"); got != len(first.Entries) || b.count(user+".entry") != got {
		t.Errorf("%d rows and %d bars, want %d", got, b.count(user+".entry"), len(first.Entries))
	}
	sum := 0
	for _, e := range first.Entries {
		n, err := e.N.Int64()
		must.Do(t, err)
		sum += int(n)
	}
	if sum != 5 || !strings.HasPrefix(want.Why, "5 of 5 used in the last minute for user=bob") || !strings.HasPrefix(b.text("#why"), "5 of 5 used in the last minute for user=bob") {
		t.Errorf("%d units in the entries; the sentence is %q, that of the API %q", sum, b.text("#why"), want.Why)
	}

	// A reset is asked for, and the dialog may be left.
	dialog := func(opener string) {
		t.Helper()
		eval[any](b, "[...document.querySelectorAll('main button')].find((b) => b.textContent === '"+opener+"').click()")
		b.until("document.querySelector('dialog[open]')")
		b.accessible()
	}
	dialog("Reset …")
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until("!document.querySelector('dialog')")
	if got := b.text(user + ".facts dd"); !strings.HasPrefix(got, "5 of 5") {
		t.Errorf("without a confirmation %s", got)
	}
	dialog("Reset …")
	b.click("dialog .danger")
	b.until("!document.querySelector('dialog') && document.querySelector('" + user + ".facts dd').textContent === '0 of 5, 5 remain'")
	b.wants(map[string]string{"main .lead .badge": "allowed", ".notice": "Reset: user."})
	dialog("Block …")
	b.click("dialog .danger")
	b.until("!document.querySelector('dialog') && document.querySelector('main .lead .badge').textContent === 'denied'")
	if got := b.text("#why"); !strings.HasPrefix(got, "blocked for user=bob") || b.count(user+".block") != 1 {
		t.Errorf("a blocked key: %q", got)
	}
}

// TestBucketShowsItsCapacity: more units than the rate may be missing in a bucket.
func TestBucketShowsItsCapacity(t *testing.T) {
	s := serve(t)
	s.send("POST", "/v1/check", `{"policy":"mail","key":{"user":"ann"},"n":15}`)
	b := s.operate(wide, "#/key/mail?user=ann")
	b.wants(map[string]string{"[data-limit=limit] .facts dd": "15 of 20, 5 remain"})
}

// TestPlanOfAKey: the list of keys has no plans, so a key may be shown without its own.
func TestPlanOfAKey(t *testing.T) {
	s := serve(t)
	b := s.operate(wide, "#/key/api?user=carol")
	for hash, want := range map[string]string{
		"#/key/api?user=carol":           "Plannot given: the numbers of the policy itself. Look the key up with its plan to see those of a plan.",
		"#/key/api?user=carol&plan=free": "Plannone of this name: the numbers of the policy itself",
		"#/key/api?user=carol&plan=pro":  "Planpro",
	} {
		b.change(hash)
		if got := b.text("main .facts"); got != want {
			t.Errorf("%s has %q, want %q", hash, got, want)
		}
	}
}

// TestHostileKeysStayText denies 200 hostile keys. They add no element and run no script, and each
// character that hides or turns a text is shown as an escape.
func TestHostileKeysStayText(t *testing.T) {
	s := serve(t)
	b := s.operate(wide, "#/keys")
	before := b.count("main *")
	s.try(2, "odd", map[string]string{"text": "plain"})
	b.until("document.querySelectorAll('table.keys tbody tr').length === 2")
	perRow := (b.count("main *") - before) / 2
	for i := range 200 {
		key := strings.ToValidUTF8(hostile[i%len(hostile)], "\u202e") + fmt.Sprint(i)
		if i%7 == 0 {
			key = strings.Repeat(key, 1024/len(key))
		}
		times := 2
		if strings.HasPrefix(key, "\u202e") {
			times = 3 // among the first
		}
		s.try(times, "odd", map[string]string{"text": key})
	}
	b.until("document.querySelectorAll('table.keys tbody tr').length === 100") // 50 of each list
	if n := b.count("main *"); n > before+100*(perRow+1) {
		t.Errorf("100 rows have %d elements, want %d each", n-before, perRow)
	}
	for _, selector := range []string{"main script, main img, main iframe, main svg, main style, main link, main object, main embed", "main [onerror], main [onload]"} {
		if n := b.count(selector); n > 0 {
			t.Errorf("%d of %s", n, selector)
		}
	}
	text := eval[string](b, "document.body.textContent")
	if i := strings.IndexAny(text, "\u202e\u2028\ufeff\x00\x1b"); i >= 0 {
		t.Errorf("the page has %q", text[i:min(len(text), i+20)])
	}
	if !strings.Contains(text, `\u202egnp.exe`) || eval[string](b, "document.title") != "Keys – Weir" {
		t.Error("the escape is missing, or a script has run")
	}
	// Two long ones that are shown alike have a row each.
	for i := range 2 {
		s.try(4+i, "odd", map[string]string{"text": strings.Repeat("w", 200) + fmt.Sprint(i)})
	}
	b.until("[...document.querySelectorAll('table.keys tbody tr')].filter((r) => r.textContent.includes('www') && ['3', '4'].includes(r.cells[2].textContent)).length === 2")
	// The line for a shell has JSON.
	b.change("#/try?policy=odd&key.text=a%F3%A0%80%81b")
	if got := b.text("#curl"); !strings.Contains(got, `"a\udb40\udc01b"`) {
		t.Errorf("the line is %s", got)
	}
	// A long one has a view of its own, without sideways scrolling.
	long := strings.Repeat("<b>\u202e&amp;", 100)[:1000]
	text = strings.ReplaceAll(url.QueryEscape(strings.ToValidUTF8(long, "")), "+", "%20")
	b.look(screen{width: 390, height: 844})
	for _, hash := range []string{"#/try?policy=odd&key.text=" + text, "#/key/odd?text=" + text} {
		b.change(hash)
		b.narrow()
	}
}

// narrow fails the test if the page scrolls sideways.
func (b *tab) narrow() {
	b.t.Helper()
	if over := eval[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
		wide := eval[[]string](b, "[...document.querySelectorAll('main *, header *')].filter((e) => e.getBoundingClientRect().right > innerWidth && !e.closest('.scroll')).map((e) => e.outerHTML.slice(0, 90)).slice(0, 4)")
		b.t.Errorf("%s is %d pixels too wide: %q", eval[string](b, "location.hash"), over, wide)
	}
}

// TestTokenIsAskedForAndForgotten: the shell needs no token, data does; the page keeps it in its
// memory alone.
func TestTokenIsAskedForAndForgotten(t *testing.T) {
	const right = "0123456789abcdef-operators"
	file := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(file, []byte(right), 0o600))
	s := serve(t, "--admin-token-file", file)
	s.token = right
	b := newTab(t, wide)
	b.origin = s.url
	b.visit(s.url + "/")
	enter := func(token string) {
		t.Helper()
		b.until("!document.querySelector('#token').hidden")
		b.do(chromedp.SendKeys(chromedp.CSS("#token input"), token), chromedp.Click(chromedp.CSS("#token button")))
	}
	enter("wrong")
	b.until("document.querySelector('#token-reason').textContent.startsWith('weir rejects this token: it is wrong')")
	eval[any](b, "void (document.querySelector('#token input').value = 'a token with an arrow →')")
	b.click("#token button") // no header field can have it
	b.until("document.querySelector('#token-reason').textContent.startsWith('weir rejects this token: it has a character')")
	enter("wrong-wrong-wrong-wrong")
	b.until("document.querySelector('#token-reason').textContent.startsWith('weir rejects this token')")
	if text := b.text("main"); strings.Contains(text, "login") {
		t.Errorf("without the token the page shows %q", text)
	}
	enter(right)
	b.until("document.querySelector('[data-policy=login]')")
	b.change("#/try?policy=login&key.user=ann") // a decision, by the token of operators
	b.click("main form button[type=submit]")
	b.until("document.querySelector('main .why')")
	if kept := eval[string](b, "document.cookie + Object.keys(localStorage) + Object.keys(sessionStorage) + location.href"); strings.Contains(kept, right) || kept != eval[string](b, "location.href") {
		t.Errorf("the page keeps %q", kept)
	}
	b.do(chromedp.Reload())
	b.until("!document.querySelector('#token').hidden")
}

// heldAddress returns an address on which the test may serve twice, and no other server meanwhile.
func heldAddress(t *testing.T) string {
	t.Helper()
	address, err := listentest.HoldPort()
	must.Do(t, err)
	t.Cleanup(func() { listentest.ReleasePort(address) })
	return address
}

// TestPageHealsItself: the server goes away under the page and comes back.
func TestPageHealsItself(t *testing.T) {
	s, process := serveAt(t, heldAddress(t))
	b := s.operate(wide, "#/policies")
	process.Process.Kill()
	<-process.Ended
	b.until("document.querySelector('.notice.bad')?.textContent.startsWith('weir does not answer at ')")
	b.wants(map[string]string{"#state": "no answer"})
	serveAt(t, strings.TrimPrefix(s.url, "http://"))
	s.try(4, "login", map[string]string{"user": "mallory"})
	b.until("!document.querySelector('.notice.bad') && document.querySelector(`[data-policy=login] [data-total=denied]`).textContent.startsWith('1 ')")
}

// TestPageFollowsANewStart: a server that starts again with other policies, as with the same, begins
// with generation 1.
func TestPageFollowsANewStart(t *testing.T) {
	s, process := serveAt(t, heldAddress(t))
	b := s.operate(wide, "#/policies")
	process.Process.Kill()
	<-process.Ended
	b.until("document.querySelector('.notice.bad')?.textContent.startsWith('weir does not answer at ')")
	text := strings.Replace(policies, "  trial:", "  tried:", 1)
	text = strings.Replace(text, "3 per minute per user", "4 per minute per user", 1)
	must.Do(t, os.WriteFile(s.file, []byte(text), 0o600))
	program.Serve(t, exec.Command(program.Path(t), "serve", "--listen", strings.TrimPrefix(s.url, "http://"), "--linger", "0", "--policies", s.file))
	b.until("document.querySelector('[data-policy=tried]') && !document.querySelector('[data-policy=trial]')")
	b.until("document.querySelector('[data-policy=login] code').textContent.startsWith('4 per minute')")
}

// TestSentencesOfThePage: an unknown view, a policy that is gone and another clock get a sentence.
func TestSentencesOfThePage(t *testing.T) {
	s := serve(t)
	b := newTab(t, wide)
	b.origin = s.url
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: "const now = Date.now; Date.now = () => now() - 600000;"})
	b.visit(s.url + "/#/policies")
	b.until("document.querySelector('.notice.bad')?.textContent.startsWith('The clock of weir is 10 min ahead of the clock of this computer.')")
	for hash, want := range map[string]string{
		"#/nowhere":           "This page has no view #/nowhere. The policies",
		"#/key/gone?user=ann": "There is no policy gone any more. The policies in force",
		"#/keys?policy=gone":  "There is no policy gone any more. The policies in force",
		"#/key/login":         "Enter a key to see its history, and why it is allowed or denied.",
	} {
		b.change(hash)
		if text := b.text("main"); !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", hash, text, want)
		}
	}
}

// TestReloadUnderThePage: the page shows the changes of a reload, and a sentence for a policy that is
// gone.
func TestReloadUnderThePage(t *testing.T) {
	s := serve(t)
	b := s.operate(wide, "#/key/trial?user=dave")
	text := strings.Replace(policies, "user: 5 per minute", "user: 8 per minute", 1)
	text = strings.Replace(text, "  trial:", "  tried:", 1)
	must.Do(t, os.WriteFile(s.file, []byte(text), 0o600))
	b.until("document.querySelector('.notice.bad')?.textContent.includes('no policy \"trial\"')")
	b.change("#/policies")
	b.until("document.querySelector('[data-policy=tried]') && !document.querySelector('[data-policy=trial]')")
	if got := b.text("ul.changes"); !strings.Contains(got, "api: limit user 5 → 8 per minute per user") {
		t.Errorf("the reload changed %q", got)
	}
	must.Do(t, os.WriteFile(s.file, []byte("version: 1\npolicies: 5\n"), 0o600))
	b.until("document.querySelector('.notice.bad')?.textContent.startsWith('The last reload failed, and the policies before it stay: ')")
}

// TestPauseStopsUpdates: while the page is paused its numbers stay.
func TestPauseStopsUpdates(t *testing.T) {
	s := serve(t)
	b := s.operate(wide, "#/policies")
	b.click("#pause")
	b.until("document.querySelector('#state').textContent.startsWith('paused')")
	s.try(4, "login", map[string]string{"user": "mallory"})
	eval[any](b, "new Promise((done) => setTimeout(done, 2500))")
	if got := b.text("[data-policy=login] [data-total=denied]"); got != "0 since the start" {
		t.Errorf("a paused page shows %q", got)
	}
	b.click("#pause")
	b.until("document.querySelector(`[data-policy=login] [data-total=denied]`).textContent.startsWith('1 ')")
}

// TestPageWorksUnderAPrefix: a proxy may serve the page at a path of its own.
func TestPageWorksUnderAPrefix(t *testing.T) {
	s := serve(t)
	target, err := url.Parse(s.url)
	must.Do(t, err)
	proxy := httptest.NewServer(http.StripPrefix("/ops/weir", &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	t.Cleanup(proxy.Close)
	t.Cleanup(proxy.CloseClientConnections)
	b := newTab(t, wide)
	b.origin = proxy.URL + "/ops/weir"
	b.visit(b.origin + "/#/policies")
	b.shown("#/policies")
	s.try(4, "login", map[string]string{"user": "mallory"})
	b.until("document.querySelector(`[data-policy=login] [data-total=denied]`).textContent.startsWith('1 ')")
}

// TestPageForbidsInlineCode: the policy of the answer stops scripts and styles in markup, and
// requests to other origins.
func TestPageForbidsInlineCode(t *testing.T) {
	s := serve(t)
	b := s.operate(wide, "#/policies")
	violations := eval[[]string](b, `new Promise((done) => {
		const all = [];
		addEventListener('securitypolicyviolation', (e) => { all.push(e.effectiveDirective); if (all.length === 4) done(all.sort()); });
		const inline = document.createElement('script');
		inline.append("document.title = 'broken'");
		document.body.append(inline);
		const style = document.createElement('style');
		style.append('body { display: none }');
		document.body.append(style);
		fetch('http://127.0.0.1:1/').catch(() => {});
		const image = document.createElement('img');
		image.src = 'http://127.0.0.1:1/';
		document.body.append(image);
	})`)
	b.forgive()
	if got := strings.Join(violations, " "); got != "connect-src img-src require-trusted-types-for style-src-elem" {
		t.Errorf("violations: %s", got)
	}
	if title := eval[string](b, `document.title`); title != "Policies – Weir" {
		t.Errorf("an inline script ran: the title is %q", title)
	}
}

var screenshots = flag.String("screenshots", "", "write a picture of each view to this folder")

// TestEveryViewIsAccessible: axe finds no fault in any view, light and dark; no view scrolls
// sideways at 390 pixels; and none sends a request elsewhere, or violates the policy.
func TestEveryViewIsAccessible(t *testing.T) {
	s := serve(t)
	s.traffic()
	for _, look := range []screen{wide, {width: 1400, height: 1000, dark: true}, {width: 390, height: 844}, {width: 390, height: 844, dark: true}} {
		b := newTab(t, look)
		b.origin = s.url
		call(b, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}) // for axe alone
		b.visit(s.url + "/" + views[0].hash)
		for _, v := range views {
			b.change(v.hash)
			b.narrow()
			b.accessible()
			if *screenshots != "" {
				b.picture(filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%t.png", v.name, look.width, look.dark)))
			}
		}
	}
}

// picture writes a picture of the whole page.
func (b *tab) picture(name string) {
	b.t.Helper()
	must.Do(b.t, os.WriteFile(name, get(b, chromedp.FullScreenshot(100)), 0o600))
}
