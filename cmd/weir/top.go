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

func (o *topOptions) run(cmd *cobra.Command, _ []string) error {
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var last *topAnswer
	for {
		now, err := client.list(ctx, o)
		var away *failure
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if err := now.print(cmd.OutOrStdout(), last, asJSON(cmd)); err != nil || o.once {
				return err
			}
			last = now
		case last == nil || !errors.As(err, &away) || away.code != exitStore:
			return err
		default: // it may be restarted
			fmt.Fprintf(cmd.ErrOrStderr(), "weir top: %v; trying again every %v\n", err, o.interval)
		}
		select {
		case <-time.After(o.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// adminElsewhere is the next step if an address does not serve the calls of operators.
const adminElsewhere = "is --url the address of weir's admin listener, and does the policy exist?"

// list requests GET /v1/top.
func (c *apiClient) list(ctx context.Context, o *topOptions) (*topAnswer, error) {
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

// topAnswer is one answer of GET /v1/top.
type topAnswer struct {
	httpapi.TopList
	At    time.Time `json:"at"`
	Since time.Time `json:"since"` // zero without a denial
	body  []byte
	from  string    // the address of weir
	when  time.Time // the instant of the request, by the clock of this process
}

// parseTop reads an answer.
func parseTop(body []byte, from string, when time.Time) (*topAnswer, error) {
	a := &topAnswer{body: body, from: from, when: when}
	if err := json.Unmarshal(body, a); err != nil || a.Policies == nil {
		return nil, usage("is --url the address of weir's admin listener?",
			"%s is not a weir: its answer to /v1/top is malformed", from)
	}
	return a, nil
}

// print prints an answer, below that before. last is the answer before, or nil.
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
		callers := cmp.Or(strings.Join(key, " "), "(all callers)")
		rows = append(rows, []string{number(e.Denials), number(e.Error), policy, callers})
	}
	return rows
}
