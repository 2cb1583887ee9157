package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"
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
	defer screen.restore()
	var last *topAnswer
	for {
		now, err := client.list(ctx)
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
			screen.restore()
			return err
		}
		select {
		case <-time.After(o.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// topAnswer is one answer of GET /v1/top.
type topAnswer struct {
	httpapi.TopList
	at, since time.Time // At and Since
	body      []byte
	from      string    // the address of weir
	when      time.Time // of the request, by the clock of this process
}

// parseTop reads an answer.
func parseTop(body []byte, from string, when time.Time) (*topAnswer, error) {
	a := &topAnswer{body: answer.Printable(body), from: from, when: when}
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

// topClient requests GET /v1/top.
type topClient struct {
	*apiClient
	path string
}

func newTopClient(o *topOptions) (*topClient, error) {
	client, err := newAPIClient(o.url, 10*time.Second)
	if err != nil {
		return nil, err
	}
	query := url.Values{"n": {strconv.Itoa(o.n)}}
	if o.policy != "" {
		query.Set("policy", o.policy)
	}
	client.token = os.Getenv("WEIR_ADMIN_TOKEN")
	if o.token != "" {
		b, err := os.ReadFile(o.token)
		if err != nil {
			return nil, usage("", "--token-file: %w", err)
		}
		client.token = strings.TrimSpace(string(b))
	}
	return &topClient{client, "/v1/top?" + query.Encode()}, nil
}

func (c *topClient) list(ctx context.Context) (*topAnswer, error) {
	when := time.Now()
	res, body, err := c.get(ctx, c.path, exitStore)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusOK:
		return parseTop(body, c.address, when)
	case res.StatusCode == http.StatusUnauthorized:
		return nil, usage("name the file with the operators' token by --token-file, or set $WEIR_ADMIN_TOKEN", "%s: authentication required: the bearer token is missing or wrong", c.address)
	}
	return nil, usage("is --url the address of weir's admin listener, and does the policy exist?", "%s answers %s: %s", c.address, res.Status, problemDetail(body))
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
