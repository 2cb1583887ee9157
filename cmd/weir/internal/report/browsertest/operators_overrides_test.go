package browsertest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestOverridesOnThePage sets, changes and deletes an override, which is marked among the keys. A
// lower number needs the tick, and another operator's change in between is reported.
func TestOverridesOnThePage(t *testing.T) {
	s := serve(t)
	s.traffic()
	b := s.operate(wide, "#/overrides")
	press := func(text string) {
		t.Helper()
		eval[any](b, "[...document.querySelectorAll('main button')].find((b) => b.textContent === '"+text+"').click()")
		b.until("document.querySelector('dialog[open]')")
	}
	fill := func(name, value string) {
		t.Helper()
		eval[any](b, "void (document.querySelector('dialog [name="+name+"]').value = '"+value+"')")
	}
	save := func() {
		t.Helper()
		b.click("dialog [type=submit]")
	}
	b.do(chromedp.SendKeys(chromedp.CSS("main form input"), "mallory"))
	press("Override …")
	b.accessible()
	fill("max", "1")
	fill("reason", "ticket 12")
	fill("author", "zoe")
	save()
	b.until("document.querySelector('dialog [role=alert]').textContent.includes('force')")
	fill("max", "9007199254740993") // above MaxUnits
	save()
	b.until("document.querySelector('dialog [role=alert]').textContent.includes('2251799813685247')")
	fill("max", "30")
	save()
	b.until("!document.querySelector('dialog')")
	b.until("document.querySelector('main .overrides li')")
	if got := b.text("main .overrides li"); !strings.HasPrefix(got, "login: user=mallory → 30ChangeDelete") || !strings.Contains(got, "Delete30 per minute per user, then block 10m; for goodticket 12 – zoe") {
		t.Errorf("the item is %q", got)
	}

	b.accessible()

	// Another operator changes it while the dialog is open.
	press("Change")
	s.send("PUT", "/v1/overrides/login", `{"key":{"user":"mallory"},"max":40,"reason":"ticket 13","author":"yan"}`)
	fill("max", "50")
	save()
	b.until("document.querySelector('dialog [role=alert]').textContent.includes('yan has changed the override to 40')")
	b.click("dialog [type=button]")
	b.until("document.querySelector('main .overrides li').textContent.includes('ticket 13')")

	b.change("#/policies")
	if got := b.text("[data-policy=login] .links a:last-child"); got != "1 override" { // of the store
		t.Errorf("the policy has %q", got)
	}
	b.change("#/keys")
	b.until("document.querySelector('table.keys .badge.good')?.textContent === 'override'")
	b.change("#/key/login?user=mallory")
	if got := b.text("main .facts"); !strings.Contains(got, "Overrideticket 13, for good") {
		t.Errorf("one key shows %q", got)
	}
	b.change("#/overrides")
	press("Delete")
	fill("reason", "over")
	fill("author", "zoe")
	save()
	b.until("!document.querySelector('dialog') && !document.querySelector('main .overrides li')")
	var list struct{ Overrides []any }
	must.Do(t, json.Unmarshal([]byte(s.send("GET", "/v1/overrides", "")), &list))
	if len(list.Overrides) != 0 {
		t.Errorf("there are %v", list.Overrides)
	}
	b.change("#/health")
	if got := b.text("main"); !strings.Contains(got, "this one") {
		t.Errorf("the instances are missing in %q", got)
	}
}

// TestOverrideOfAnAddress changes the override of an address in another form than the store has. The
// end keeps its seconds, and the number of overrides follows changes by others.
func TestOverrideOfAnAddress(t *testing.T) {
	s := serve(t)
	b := s.operate(wide, "#/policies")
	const links = "document.querySelector('[data-policy=search] .links a:last-child')"
	b.until(links + ".hidden")
	s.send("PUT", "/v1/overrides/search", `{"key":{"ip":"2001:db8::1"},"max":9,"until":"2190-01-02T03:04:05Z","reason":"r","author":"yan"}`)
	b.until("!" + links + ".hidden && " + links + ".textContent === '1 override'")
	b.change("#/key/search?ip=2001:DB8::7")
	eval[any](b, "[...document.querySelectorAll('main button')].find((b) => b.textContent === 'Override …').click()")
	b.until("document.querySelector('dialog h2')?.textContent === 'Change the override'")
	if got := eval[string](b, "document.querySelector('dialog [name=max]').value"); got != "9" {
		t.Errorf("the dialog begins with %s, want 9", got)
	}
	eval[any](b, "void ['max=12', 'author=zoe'].forEach((x) => { const [name, value] = x.split('='); document.querySelector('dialog [name=' + name + ']').value = value; })")
	b.click("dialog [type=submit]")
	b.until("!document.querySelector('dialog')")
	if got := s.send("GET", "/v1/overrides/search?ip=2001:db8::9", ""); !strings.Contains(got, `"max":12,`) || !strings.Contains(got, `"until":"2190-01-02T03:04:05Z"`) {
		t.Errorf("the override is %s", got)
	}
}

// TestManyOverridesComeInPages: the page never asks for all overrides.
func TestManyOverridesComeInPages(t *testing.T) {
	s := serve(t)
	for i := range 450 {
		s.send("PUT", "/v1/overrides/login", fmt.Sprintf(`{"key":{"user":"u%d"},"max":9,"reason":"r","author":"a"}`, i))
	}
	b := s.operate(wide, "#/overrides")
	press := func(text string, rows int) {
		t.Helper()
		eval[any](b, "[...document.querySelectorAll('main button')].find((b) => b.textContent === '"+text+"').click()")
		b.until(fmt.Sprintf("document.querySelectorAll('main .overrides li').length === %d", rows))
	}
	if n := b.count("main .overrides li"); n != 200 {
		t.Errorf("%d overrides are shown, want 200", n)
	}
	press("More", 200)
	b.until("!document.querySelector('main .overrides li').textContent.includes('user=u0 ')")
	press("More", 50)
	press("The first ones", 200)
}

// TestOverrideOfSomeValues: an override may be for all users of a tenant, and is for no fewer values
// than one.
func TestOverrideOfSomeValues(t *testing.T) {
	s := serve(t)
	b := s.operate(wide, "#/overrides")
	press := func() {
		t.Helper()
		eval[any](b, "[...document.querySelectorAll('main button')].find((b) => b.textContent === 'Override …').click()")
	}
	eval[any](b, "void ((box) => { box.value = 'pair'; box.dispatchEvent(new Event('change')); })(document.querySelector('main form select'))")
	press()
	b.until("document.querySelector('.notice.bad')?.textContent === 'An override is for at least one value of the key.'")
	b.do(chromedp.SendKeys(chromedp.CSS("main form [name='key.tenant']"), "acme"))
	press()
	b.until("document.querySelector('dialog[open]')")
	eval[any](b, "void ['max=12', 'author=zoe', 'reason=r'].forEach((x) => { const [name, value] = x.split('='); document.querySelector('dialog [name=' + name + ']').value = value; })")
	b.click("dialog [type=submit]")
	b.until("!document.querySelector('dialog')")
	if got := s.send("GET", "/v1/overrides/pair", ""); !strings.Contains(got, `"key":{"tenant":"acme"},"limit":"limit","max":12,`) {
		t.Errorf("the overrides are %s", got)
	}
}

// TestHostileOverridesStayText: keys, reasons and authors add no element to the list of overrides, to
// its dialogs and to the view of a key.
func TestHostileOverridesStayText(t *testing.T) {
	s := serve(t)
	put := func(key, reason, author string) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"key": map[string]string{"text": key}, "max": 9, "reason": reason, "author": author})
		must.Do(t, err)
		s.send("PUT", "/v1/overrides/odd", string(body))
	}
	put("plain", "reason", "author")
	b := s.operate(wide, "#/overrides")
	before := b.count("main .overrides *")
	const n = 20
	for i := range n {
		text := strings.ToValidUTF8(hostile[i%len(hostile)], "\u202e")
		put(fmt.Sprint(text, i), text[:min(len(text), 400)]+"\u202e", "\u202e"+text[:min(len(text), 90)])
	}
	b.until(fmt.Sprintf("document.querySelectorAll('main .overrides li').length === %d", n+1))
	if got := b.count("main .overrides *"); got != before*(n+1) {
		t.Errorf("%d items have %d elements, want %d each", n+1, got, before)
	}
	eval[any](b, "[...document.querySelectorAll('main button')].findLast((b) => b.textContent === 'Delete').click()")
	b.until("document.querySelector('dialog[open]')")
	for _, selector := range []string{"script:not([src])", "main img, dialog img, iframe, main style, dialog style", "[onerror], [onload]"} {
		if got := b.count(selector); got > 0 {
			t.Errorf("%d of %s", got, selector)
		}
	}
	text := eval[string](b, "document.body.textContent")
	if i := strings.IndexAny(text, "\u202e\u2028\ufeff\x00\x1b"); i >= 0 {
		t.Errorf("the page has %q", text[i:min(len(text), i+20)])
	}
	b.click("dialog [type=button]")
	b.accessible()
	b.look(screen{width: 390, height: 844, dark: true})
	b.narrow()
	b.accessible()
	b.change("#/key/odd?text=" + strings.ReplaceAll(url.QueryEscape(strings.ToValidUTF8(hostile[0], "\u202e")+"0"), "+", "%20"))
	if got := b.text("main .facts"); !strings.Contains(got, "Override") || strings.Contains(got, "\u202e") {
		t.Errorf("one key shows %q", got)
	}
}

// TestChangeOfOneOfSeveralLimits: a key may have an override for each limit. The form begins with the
// one that is changed, and another limit brings its own numbers.
func TestChangeOfOneOfSeveralLimits(t *testing.T) {
	s := serve(t)
	for limit, n := range map[string]int{"all": 200_000, "user": 60} {
		s.send("PUT", "/v1/overrides/api", fmt.Sprintf(`{"key":{"user":"bob"},"limit":%q,"max":%d,"reason":"r","author":"a","force":true}`, limit, n))
	}
	b := s.operate(wide, "#/overrides")
	form := func() string {
		t.Helper()
		return eval[string](b, "((d) => d.querySelector('select').value + ' ' + d.querySelector('[name=max]').value)(document.querySelector('dialog'))")
	}
	choose := func(limit string) {
		t.Helper()
		eval[any](b, "void ((box) => { box.value = '"+limit+"'; box.dispatchEvent(new Event('change', { bubbles: true })); })(document.querySelector('dialog select'))")
	}
	eval[any](b, "[...document.querySelectorAll('main li')].find((r) => r.textContent.includes('limit user')).querySelector('button').click()")
	b.until("document.querySelector('dialog[open]')")
	if got := form(); got != "user 60" {
		t.Errorf("the form begins with %q, want user 60", got)
	}
	choose("all")
	if got := form(); got != "all 200000" {
		t.Errorf("of another limit it has %q, want all 200000", got)
	}
	choose("user")
	eval[any](b, "void ['max=70', 'author=zoe'].forEach((x) => { const [name, value] = x.split('='); document.querySelector('dialog [name=' + name + ']').value = value; })")
	b.click("dialog [type=submit]")
	b.until("!document.querySelector('dialog')")
	if got := s.send("GET", "/v1/overrides/api?user=bob", ""); !strings.Contains(got, `"limit":"user","max":70,`) || !strings.Contains(got, `"limit":"all","max":200000,`) {
		t.Errorf("the overrides are %s", got)
	}
}
