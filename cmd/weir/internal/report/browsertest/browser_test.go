package browsertest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// theBrowser is one browser for all tests of a run, which the first test starts.
var theBrowser struct {
	once sync.Once
	ctx  context.Context
	err  error
	ends []func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range slices.Backward(theBrowser.ends) {
		end()
	}
	os.Exit(code)
}

// chromium returns the running browser.
func chromium(t *testing.T) context.Context {
	t.Helper()
	program := needs.Browser(t)
	theBrowser.once.Do(func() { theBrowser.err = start(program) })
	if theBrowser.err != nil {
		t.Fatalf("%s does not start: %v", program, theBrowser.err)
	}
	return theBrowser.ctx
}

// patience bounds the start of the browser, and the use of a tab. A busy machine is slow.
const patience = 5 * time.Minute

func start(program string) error {
	profile, err := os.MkdirTemp("", "weir-report")
	if err != nil {
		return err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.Flag("headless", true),
		chromedp.WSURLReadTimeout(patience),
	}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "no-default-browser-check",
		"disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	theBrowser.ctx, theBrowser.ends = ctx, []func(){func() { os.RemoveAll(profile) }, stop, end}
	return chromedp.Do(ctx)
}

// tab is a page with the events that it may not cause.
type tab struct {
	context.Context
	t      *testing.T
	origin string // requests to it are no fault; "" = none are permitted

	mu       sync.Mutex // protects the following
	url      string     // the file itself
	requests []string   // other than the file itself
	faults   []string   // errors of scripts, and violations of the content security policy
}

// screen is the size and the look of a window.
type screen struct {
	width, height int64
	dark          bool
	media         string // "" = that of the browser: screen, and print for a PDF
}

var wide = screen{width: 1400, height: 1000}

// open opens a file and waits until its script has run. The test fails if the page sends a
// request or its script fails.
func open(t *testing.T, url string, s screen) *tab {
	t.Helper()
	b := newTab(t, s)
	b.visit(url)
	return b
}

// newTab returns an empty tab.
func newTab(t *testing.T, s screen) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium(t))
	t.Cleanup(end)
	b := &tab{Context: ctx, t: t}
	b.do() // a timeout before the first action would be that of the tab
	b.Context, end = context.WithTimeout(ctx, patience)
	t.Cleanup(end)
	must.Do(t, chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			isOwn := b.origin != "" && strings.HasPrefix(e.Request.URL, b.origin+"/")
			if strings.HasPrefix(e.Request.URL, "data:") {
				return // a picture of the browser itself, such as that of a calendar
			}
			if e.Request.URL != b.url && !isOwn {
				b.requests = append(b.requests, e.Request.URL)
			}
		case *runtime.EventExceptionThrown:
			b.faults = append(b.faults, fmt.Sprintf("%+v", e.ExceptionDetails.Exception))
		case *runtime.EventConsoleAPICalled:
			b.faults = append(b.faults, "console."+string(e.Type))
		case *log.EventEntryAdded:
			if b.origin != "" && e.Entry.Source == "network" {
				return // an answer with an error, or none
			}
			b.faults = append(b.faults, e.Entry.Text)
		}
	}))
	t.Cleanup(b.quiet)
	b.look(s)
	return b
}

// visit loads a page.
func (b *tab) visit(url string) {
	b.t.Helper()
	b.mu.Lock()
	b.url = url
	b.mu.Unlock()
	b.do(chromedp.Navigate(url))
}

// look sets the size and the media of the window.
func (b *tab) look(s screen) {
	b.t.Helper()
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	b.do(chromedp.EmulateViewport(s.width, s.height))
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: s.media, Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must.Do(b.t, chromedp.Do(b.Context, actions...))
}

// get returns the value of an action.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	got, err := chromedp.Run(b.Context, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// call sends a command of the protocol.
func call[P, R any](b *tab, c cdp.Command[P, R], params P) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	}))
}

// eval returns the value of an expression of JavaScript.
func eval[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// text returns the text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, "document.querySelector(`"+selector+"`).textContent")
}

// wants fails the test unless the elements have these texts.
func (b *tab) wants(texts map[string]string) {
	b.t.Helper()
	for selector, want := range texts {
		if got := b.text(selector); got != want {
			b.t.Errorf("%s is %q, want %q", selector, got, want)
		}
	}
}

// count returns the number of elements.
func (b *tab) count(selector string) int {
	b.t.Helper()
	return eval[int](b, "document.querySelectorAll(`"+selector+"`).length")
}

// view begins the selectors of the result that is shown.
const view = `.view:not([hidden]) `

// slide presses a key on the slider.
func (b *tab) slide(key string) {
	b.t.Helper()
	b.do(chromedp.Focus(chromedp.CSS(view+`.slide input`)), chromedp.KeyEvent(key))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// quiet fails the test if the page has sent a request or its script has failed.
func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) > 0 {
		b.t.Errorf("the page sent requests: %q", b.requests)
	}
	if len(b.faults) > 0 {
		b.t.Errorf("the page has errors:\n%s", strings.Join(b.faults, "\n"))
	}
}

// forgive drops the requests and errors so far, which the test has caused.
func (b *tab) forgive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests, b.faults = nil, nil
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	eval[bool](b, `new Promise((done) => { const look = () => (`+expression+`) ? done(true) : requestAnimationFrame(look); look(); })`)
}
