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
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/answer"
)

// topOptions are the flags of weir top.
type topOptions struct {
	server   clientFlags
	policy   string
	interval time.Duration
	n        int
	once     bool
}

func topCommand() *cobra.Command {
	o := topOptions{
		server:   clientFlags{variable: "WEIR_ADMIN_TOKEN"},
		interval: 2 * time.Second,
		n:        15,
	}
	cmd := newCommand("top", "List the keys that are denied most", wantArgs(0, 0, ""), o.run)
	f := cmd.Flags()
	o.server.addTo(cmd, defaultURL, "the `URL` of weir's admin listener, or unix:/path")
	f.StringVar(&o.policy, "policy", "", "only the policy of that `NAME`")
	f.VarP(&intValue{to: &o.n, most: 1000, next: "write -n 20, for example"}, "n", "n",
		"the number of keys, 0 to 1000")
	interval := &durationValue{
		to:    &o.interval,
		least: 100 * time.Millisecond,
		next:  "write --interval 2s, for example",
	}
	f.Var(interval, "interval", "the time between two requests, 100ms or more")
	f.BoolVar(&o.once, "once", false, "print the list once")
	return withJSON(cmd, "print the answers of weir, one JSON object for each request")
}

// run prints the list again and again until SIGTERM or SIGINT, or once with --once.
func (o *topOptions) run(cmd *cobra.Command, _ []string) error {
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var last *topAnswer
	for {
		now, err := client.requestTop(ctx, o)
		var away *failure
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if err := now.print(cmd.OutOrStdout(), last, wantsJSON(cmd)); err != nil || o.once {
				return err
			}
			last = now
		case last == nil || !errors.As(err, &away) || away.code != exitStore:
			return err
		default: // weir may be restarting
			fmt.Fprintf(cmd.ErrOrStderr(), "weir top: %v; trying again every %v\n", err, o.interval)
		}
		select {
		case <-time.After(o.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// adminElsewhere is the next step if an address does not serve the calls for operators.
const adminElsewhere = "is --url the address of weir's admin listener, and does the policy exist?"

// requestTop sends GET /v1/top and reads the answer.
func (c *apiClient) requestTop(ctx context.Context, o *topOptions) (*topAnswer, error) {
	query := url.Values{"n": {strconv.Itoa(o.n)}}
	if o.policy != "" {
		query.Set("policy", o.policy)
	}
	when := time.Now()
	a, err := c.call(ctx, http.MethodGet, "/v1/top?"+query.Encode(), nil, &struct{}{},
		adminElsewhere)
	if err != nil {
		return nil, err
	}
	return parseTop(a.body, c.address, when)
}

// topAnswer is an answer of GET /v1/top.
type topAnswer struct {
	httpapi.TopList
	At    time.Time `json:"at"`
	Since time.Time `json:"since"` // zero if no key was denied
	body  []byte
	from  string    // the address of weir
	when  time.Time // the instant of the request, by the clock of this process
}

// parseTop reads an answer. from and when are the address and the instant of the request.
func parseTop(body []byte, from string, when time.Time) (*topAnswer, error) {
	a := &topAnswer{body: body, from: from, when: when}
	if err := json.Unmarshal(body, a); err != nil || a.Policies == nil {
		return nil, usage("is --url the address of weir's admin listener?",
			"%s is not a weir: its answer to /v1/top is malformed", from)
	}
	return a, nil
}

// print prints an answer below the previous one. last is the previous answer, or nil.
func (a *topAnswer) print(out io.Writer, last *topAnswer, asJSON bool) error {
	page := a.body
	if !asJSON {
		page = []byte(a.page(last))
		if last != nil {
			page = append([]byte("\n"), page...)
		}
	}
	_, err := printable{out}.Write(page)
	return err
}

// maxPolicies is the largest number of policies that one page of weir top lists.
const maxPolicies = 8

// page returns an answer as text. Rates need last, the previous answer; without one it is nil.
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
	if len(a.Used) > 0 {
		b.WriteString("\n")
		writeTable(&b, "rrll", a.usedRows())
	}
	if a.Sample > 0 {
		fmt.Fprintf(&b, "uses of a busy policy are estimates, by one call in %d at least\n", a.Sample)
	}
	return b.String()
}

// title returns the first line of a page.
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

// policyRows returns a heading and the policies with the most denials.
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
	byDenials := func(a, b httpapi.PolicyCalls) int {
		denials := cmp.Compare(b.Denied+b.WouldDeny, a.Denied+a.WouldDeny)
		return cmp.Or(denials, cmp.Compare(b.Allowed, a.Allowed))
	}
	busiest := slices.SortedStableFunc(slices.Values(a.Policies), byDenials)
	for _, c := range busiest[:min(maxPolicies, len(busiest))] {
		old := before[c.Policy]
		rows = append(rows, []string{answer.Shown(c.Policy),
			number(c.Allowed), perSecond(c.Allowed, old.Allowed, d),
			number(c.Denied), perSecond(c.Denied, old.Denied, d),
			number(c.WouldDeny), number(c.Errors)})
	}
	return rows
}

// perSecond returns the rate of a counter between two answers, or - if it is unknown. d is the
// time between them.
func perSecond(now, last int64, d time.Duration) string {
	if d <= 0 || now < last {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(now-last)/d.Seconds())
}

// keyRows returns a heading and the keys that are denied most.
func (a *topAnswer) keyRows() [][]string {
	rows := [][]string{{"DENIALS", "±", "POLICY", "KEY"}}
	for _, e := range a.Top {
		policy := answer.Shown(e.Policy)
		if e.Rule != "" {
			policy += ": " + answer.Shown(e.Rule)
		}
		key := topKeyText(e.Key, e.Clipped)
		rows = append(rows, []string{number(e.Denials), number(e.Error), policy, key})
	}
	return rows
}

// usedRows returns a heading and the keys that are used most.
func (a *topAnswer) usedRows() [][]string {
	rows := [][]string{{"USES", "±", "POLICY", "KEY"}}
	for _, e := range a.Used {
		policy, key := answer.Shown(e.Policy), topKeyText(e.Key, e.Clipped)
		rows = append(rows, []string{number(e.Uses), number(e.Error), policy, key})
	}
	return rows
}

// topKeyText returns a key as name=value pairs, sorted by name. A clipped key ends with …
// because weir has shortened it.
func topKeyText(key map[string]string, isClipped bool) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(key)) {
		all = append(all, answer.Shown(name)+"="+answer.Shown(key[name]))
	}
	if isClipped {
		all = append(all, "…")
	}
	return cmp.Or(strings.Join(all, " "), "(all callers)")
}
