package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/answer"
)

// topOptions are the flags of weir top.
type topOptions struct {
	url, policy, token string
	interval           time.Duration
	n                  int
	once, asJSON       bool
}

func topCommand() *cobra.Command {
	var o topOptions
	cmd := newCommand("top", "List the keys that are denied most", wantArgs(0, 0, ""),
		func(cmd *cobra.Command, _ []string) error { return top(cmd, &o) })
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "http://127.0.0.1:7070", "the `URL` of weir's admin listener, or unix:/path")
	f.StringVar(&o.policy, "policy", "", "only the policy of that `NAME`")
	f.StringVar(&o.token, "token-file", "", "a `FILE` with the token of operators; or set $WEIR_ADMIN_TOKEN")
	f.IntVarP(&o.n, "n", "n", 15, "the number of keys, 0 to 1000")
	f.DurationVar(&o.interval, "interval", 2*time.Second, "the time between two requests, 100ms or more")
	f.BoolVar(&o.once, "once", false, "print the list once")
	f.BoolVar(&o.asJSON, "json", false, "print the answers of weir, one JSON object for each request")
	return cmd
}

func top(cmd *cobra.Command, o *topOptions) error {
	if o.interval < 100*time.Millisecond {
		return usage("write --interval 2s, for example", "--interval must be 100ms or more, not %v", o.interval)
	}
	if o.n < 0 || o.n > 1000 {
		return usage("write -n 20, for example", "-n must be 0 to 1000, not %d", o.n)
	}
	client, err := newTopClient(o)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	screen := newScreen(cmd.OutOrStdout(), o)
	var last *topAnswer
	for {
		now, err := client.list(ctx, o)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err == nil:
			if err := screen.show(now, last); err != nil || o.once {
				return err
			}
			last = now
		case !screen.waitsFor(last, err):
			return err
		}
		select {
		case <-time.After(o.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// newTopClient returns a client with the token of operators, if there is one.
func newTopClient(o *topOptions) (*apiClient, error) {
	client, err := newAPIClient(o.url, 10*time.Second)
	if err != nil {
		return nil, err
	}
	client.token = os.Getenv("WEIR_ADMIN_TOKEN")
	if o.token != "" {
		b, err := os.ReadFile(o.token)
		if err != nil {
			return nil, usage("", "--token-file: %w", err)
		}
		client.token = strings.TrimSpace(string(b))
	}
	return client, nil
}

// list requests GET /v1/top.
func (c *apiClient) list(ctx context.Context, o *topOptions) (*topAnswer, error) {
	query := url.Values{"n": {strconv.Itoa(o.n)}}
	if o.policy != "" {
		query.Set("policy", o.policy)
	}
	when := time.Now()
	res, body, err := c.get(ctx, "/v1/top?"+query.Encode(), exitStore)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusOK:
		return parseTop(body, c.address, when)
	case res.StatusCode == http.StatusUnauthorized:
		return nil, usage("name the file with the operators' token by --token-file, or set $WEIR_ADMIN_TOKEN", "%s: authentication required: the bearer token is missing or wrong", c.address)
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		problem.Detail = answer.Shown(string(body))
	}
	return nil, usage("is --url the address of weir's admin listener, and does the policy exist?", "%s answers %s: %s", c.address, res.Status, problem.Detail)
}

// topAnswer is one answer of GET /v1/top.
type topAnswer struct {
	httpapi.TopList
	At    time.Time `json:"at"`
	Since time.Time `json:"since"` // zero without a denial
	body  []byte
	from  string    // the address of weir
	when  time.Time // of the request, by the clock of this process
}

// parseTop reads an answer.
func parseTop(body []byte, from string, when time.Time) (*topAnswer, error) {
	a := &topAnswer{body: body, from: from, when: when}
	if err := json.Unmarshal(body, a); err != nil || a.Policies == nil {
		return nil, usage("is --url the address of weir's admin listener?", "%s is not a weir: its answer to /v1/top is malformed", from)
	}
	return a, nil
}

// screen prints the pages of weir top.
type screen struct {
	out       io.Writer
	o         *topOptions
	size      func() (columns, rows int) // of the terminal, 0 = unknown; nil = it is no terminal
	drawn     bool
	downSince time.Time // of the first request without an answer; zero while weir answers
}

func newScreen(out io.Writer, o *topOptions) *screen {
	s := &screen{out: out, o: o}
	if f, ok := out.(*os.File); ok && !o.once && !o.asJSON && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.size = func() (columns, rows int) {
			columns, rows, _ = term.GetSize(int(f.Fd())) // read each time, because windows change
			return columns, rows
		}
	}
	return s
}

// show prints an answer; on a terminal it replaces the page before. last is the
// answer before, or nil.
func (s *screen) show(now, last *topAnswer) error {
	if s.o.asJSON {
		_, err := printable{s.out}.Write(now.body)
		return err
	}
	s.downSince = time.Time{}
	return s.draw(now.page(last))
}

// waitsFor reports whether top goes on after a request without an answer: only on a
// terminal, if weir has answered before. It then prints a line above the last page.
func (s *screen) waitsFor(last *topAnswer, err error) bool {
	var f *failure
	if last == nil || s.size == nil || !errors.As(err, &f) || f.code != exitStore {
		return false
	}
	if s.downSince.IsZero() {
		s.downSince = time.Now()
	}
	_, rest, _ := strings.Cut(last.page(nil), "\n")
	return s.draw(fmt.Sprintf("weir at %s has not answered since %s; trying again every %v\n%s",
		answer.Shown(last.from), s.downSince.Format(time.TimeOnly), s.o.interval, rest)) == nil
}

// Control sequences, all of which the VT100 has.
const (
	home      = "\x1b[H" // the cursor to the upper left
	clearLine = "\x1b[K" // the rest of it
	clearRest = "\x1b[J" // of the screen
)

// draw prints a page. On a terminal it replaces the page before, cut to the rows and columns of
// the terminal.
func (s *screen) draw(page string) error {
	switch {
	case s.size != nil:
		columns, rows := s.size()
		lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
		if rows > 0 {
			lines = lines[:min(max(rows-1, 1), len(lines))]
		}
		page = home
		for _, line := range lines {
			if runes := []rune(line); columns > 0 && len(runes) > columns {
				line = string(runes[:columns])
			}
			page += line + clearLine + "\n"
		}
		page += clearRest
	case s.drawn:
		page = "\n" + page
	}
	s.drawn = true
	_, err := io.WriteString(s.out, page)
	return err
}

// maxPolicies is the number of policies on a page of weir top, the busiest.
const maxPolicies = 8

// page returns an answer for people. last is the answer before, for rates, or nil.
func (a *topAnswer) page(last *topAnswer) string {
	var b strings.Builder
	b.WriteString(a.title() + "\n\n")
	writeTable(&b, "lrrrrrr", a.policyRows(last))
	switch {
	case a.Keys == "off":
		b.WriteString("\nkeys are not kept (weir serve --top-keys off)\n")
	case len(a.Top) == 0:
		b.WriteString("\nno key was denied in the last ten minutes\n")
	default:
		b.WriteString("\n")
		writeTable(&b, "rrll", a.keyRows())
	}
	return b.String()
}

func (a *topAnswer) title() string {
	title := "weir at " + answer.Shown(a.from) + ", " + a.At.Local().Format(time.TimeOnly)
	if !a.Since.IsZero() {
		title += ", keys since " + a.Since.Local().Format(time.TimeOnly)
	}
	if a.Keys == "hashed" {
		title += ", as hashes"
	}
	return title
}

// policyRows returns rows of the busiest policies, by denials.
func (a *topAnswer) policyRows(last *topAnswer) [][]string {
	rows := [][]string{{"POLICY", "ALLOWED", "/S", "DENIED", "/S", "WOULD DENY", "ERRORS"}}
	before := map[string]httpapi.PolicyCalls{}
	var d time.Duration
	if last != nil {
		d = a.when.Sub(last.when)
		for _, c := range last.Policies {
			before[c.Policy] = c
		}
	}
	busiest := slices.SortedStableFunc(slices.Values(a.Policies), func(a, b httpapi.PolicyCalls) int {
		return cmp.Or(cmp.Compare(b.Denied+b.WouldDeny, a.Denied+a.WouldDeny), cmp.Compare(b.Allowed, a.Allowed))
	})
	for _, c := range busiest[:min(maxPolicies, len(busiest))] {
		old := before[c.Policy]
		rows = append(rows, []string{answer.Shown(c.Policy),
			number(c.Allowed), perSecond(c.Allowed, old.Allowed, d), number(c.Denied), perSecond(c.Denied, old.Denied, d),
			number(c.WouldDeny), number(c.Errors)})
	}
	return rows
}

// perSecond returns the rate of a counter between two answers.
func perSecond(now, last int64, d time.Duration) string {
	if d <= 0 || now < last {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(now-last)/d.Seconds())
}

// keyRows returns rows of the keys denied most.
func (a *topAnswer) keyRows() [][]string {
	rows := [][]string{{"DENIALS", "±", "POLICY", "KEY"}}
	for _, e := range a.Top {
		var key []string
		for _, name := range slices.Sorted(maps.Keys(e.Key)) {
			key = append(key, answer.Shown(name)+"="+answer.Shown(e.Key[name]))
		}
		if e.Clipped {
			key = append(key, "…")
		}
		policy := answer.Shown(e.Policy)
		if e.Rule != "" {
			policy += ": " + answer.Shown(e.Rule)
		}
		rows = append(rows, []string{number(e.Denials), number(e.Error), policy, cmp.Or(strings.Join(key, " "), "(all callers)")})
	}
	return rows
}
