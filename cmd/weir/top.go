package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/internal/answer"
)

// topOptions are the flags of weir top.
type topOptions struct {
	url, policy, token string
	n                  int
	asJSON             bool
}

func topCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top",
		Short: "List the keys that are denied most",
		Args:  wantArgs(0, 0, ""),
		RunE:  func(cmd *cobra.Command, _ []string) error { return top(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "http://127.0.0.1:7070", "the `URL` of weir's admin listener, or unix:/path")
	f.StringVar(&o.policy, "policy", "", "only the policy of that `NAME`")
	f.StringVar(&o.token, "token-file", "", "a `FILE` with the token of operators; or set $WEIR_ADMIN_TOKEN")
	f.IntVarP(&o.n, "n", "n", 15, "the number of keys, 0 to 1000")
	f.BoolVar(&o.asJSON, "json", false, "print the answer of weir, one JSON object")
	return cmd
}

func top(cmd *cobra.Command, o *topOptions) error {
	if o.n < 0 || o.n > 1000 {
		return usage("write -n 20, for example", "-n must be 0 to 1000, not %d", o.n)
	}
	list, err := requestTop(cmd.Context(), o)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.asJSON {
		_, err = out.Write(list.body)
	} else {
		_, err = io.WriteString(out, list.page())
	}
	return err
}

// topAnswer is one answer of GET /v1/top.
type topAnswer struct {
	httpapi.TopList
	at, since time.Time // At and Since
	body      []byte
	from      string // the address of weir
}

// parseTop reads an answer.
func parseTop(body []byte, from string) (*topAnswer, error) {
	a := &topAnswer{body: answer.Printable(body), from: from}
	err := json.Unmarshal(body, a)
	if err == nil && a.At != "" {
		a.at, err = time.Parse(time.RFC3339, a.At)
	}
	if err == nil && a.Since != "" {
		a.since, err = time.Parse(time.RFC3339, a.Since)
	}
	if err != nil || a.Policies == nil {
		return nil, usage("is --url the address of weir's admin listener?", "%s is not a weir: its answer to /v1/top is malformed", from)
	}
	return a, nil
}

// maxTop is the largest answer that is read, in bytes.
const maxTop = 16 << 20

// requestTop requests GET /v1/top.
func requestTop(ctx context.Context, o *topOptions) (*topAnswer, error) {
	client, base, err := newHTTPClient(o.url)
	if err != nil {
		return nil, err
	}
	query := url.Values{"n": {strconv.Itoa(o.n)}}
	if o.policy != "" {
		query.Set("policy", o.policy)
	}
	token := os.Getenv("WEIR_ADMIN_TOKEN")
	if o.token != "" {
		b, err := os.ReadFile(o.token)
		if err != nil {
			return nil, usage("", "--token-file: %w", err)
		}
		token = strings.TrimSpace(string(b))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/top?"+query.Encode(), nil)
	if err != nil {
		return nil, usage("", "--url: %w", err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(r)
	if err != nil {
		return nil, noAnswer(exitStore, o.url, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxTop))
	if err != nil {
		return nil, noAnswer(exitStore, o.url, err)
	}
	switch res.StatusCode {
	case http.StatusOK:
		return parseTop(body, o.url)
	case http.StatusUnauthorized:
		return nil, usage("name the file with the operators' token by --token-file, or set $WEIR_ADMIN_TOKEN", "%s: authentication required: the bearer token is missing or wrong", o.url)
	}
	return nil, usage("is --url the address of weir's admin listener, and does the policy exist?", "%s answers %s: %s", o.url, res.Status, problemDetail(body))
}

// problemDetail returns the detail of a problem document, or the whole body, in
// printable characters.
func problemDetail(body []byte) string {
	var p struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &p) != nil || p.Detail == "" {
		return answer.Shown(string(body))
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, p.Detail)
}

// maxPolicies is the number of policies on a page of weir top, the busiest.
const maxPolicies = 8

// page returns an answer for people.
func (a *topAnswer) page() string {
	var b strings.Builder
	b.WriteString(a.title() + "\n\n")
	writeTable(&b, "lrrrr", a.policyRows())
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
	title := "weir at " + answer.Shown(a.from) + ", " + a.at.Local().Format(time.TimeOnly)
	if !a.since.IsZero() {
		title += ", keys since " + a.since.Local().Format(time.TimeOnly)
	}
	if a.Keys == "hashed" {
		title += ", as hashes"
	}
	return title
}

// policyRows returns rows of the busiest policies, by denials.
func (a *topAnswer) policyRows() [][]string {
	rows := [][]string{{"POLICY", "ALLOWED", "DENIED", "WOULD DENY", "ERRORS"}}
	busiest := slices.SortedStableFunc(slices.Values(a.Policies), func(a, b httpapi.PolicyCalls) int {
		return cmp.Or(cmp.Compare(b.Denied+b.WouldDeny, a.Denied+a.WouldDeny), cmp.Compare(b.Allowed, a.Allowed))
	})
	for _, c := range busiest[:min(maxPolicies, len(busiest))] {
		rows = append(rows, []string{answer.Shown(c.Policy), number(c.Allowed), number(c.Denied), number(c.WouldDeny), number(c.Errors)})
	}
	return rows
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
