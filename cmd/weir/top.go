package main

import (
	"context"
	"encoding/json"
	"io"
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
		Long: `Top lists the keys that a running weir serve denies most, and the calls for each
policy, and refreshes the list. Denials of keys cover the last ten to twenty minutes. A
count is never too low; ± is the most by which it is too high. On a terminal top waits
for a weir that is restarted.

The list is for operators: --url is the address of the admin listener, if there is one.
Keys come from callers, so characters other than letters, digits and marks are escaped.`,
		Example: `  weir top
  weir top --url http://127.0.0.1:7072 --interval 5s --policy search
  weir top --once --json`,
		Args: wantArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return top(cmd, &o) },
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
		now, err := client.get(ctx)
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
		if !sleep(ctx, o.interval) {
			return nil
		}
	}
}

// sleep reports whether d has passed before ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// topAnswer is one answer of GET /v1/top.
type topAnswer struct {
	body []byte
	from string    // the address of weir
	when time.Time // of the request, by the clock of this process

	At    time.Time `json:"at"`
	Keys  string    `json:"keys"`
	Since time.Time `json:"since"`
	Top   []struct {
		Policy  string            `json:"policy"`
		Rule    string            `json:"rule"`
		Key     map[string]string `json:"key"`
		Clipped bool              `json:"clipped"`
		Denials int64             `json:"denials"`
		Error   int64             `json:"error"`
	} `json:"top"`
	Policies []policyCalls `json:"policies"`
}

// policyCalls counts the calls for a policy since the start of weir.
type policyCalls struct {
	Policy    string `json:"policy"`
	Allowed   int64  `json:"allowed"`
	Denied    int64  `json:"denied"`
	WouldDeny int64  `json:"would_deny"`
	Errors    int64  `json:"errors"`
}

// parseTop reads an answer.
func parseTop(body []byte, from string, when time.Time) (*topAnswer, error) {
	a := &topAnswer{body: answer.Printable(body), from: from, when: when}
	if err := json.Unmarshal(body, a); err != nil || a.Policies == nil {
		return nil, usage("is --url the address of weir's admin listener?", "%s is not a weir: its answer to /v1/top is malformed", from)
	}
	return a, nil
}

// maxTop is the largest answer that is read, in bytes.
const maxTop = 16 << 20

// topClient requests GET /v1/top.
type topClient struct {
	client *http.Client
	from   string // for messages
	target string
	token  string
}

func newTopClient(o *topOptions) (*topClient, error) {
	client, base, err := newHTTPClient(o.url)
	if err != nil {
		return nil, err
	}
	query := url.Values{"n": {strconv.Itoa(o.n)}}
	if o.policy != "" {
		query.Set("policy", o.policy)
	}
	c := &topClient{client: client, from: o.url, target: base + "/v1/top?" + query.Encode(), token: os.Getenv("WEIR_ADMIN_TOKEN")}
	if o.token != "" {
		b, err := os.ReadFile(o.token)
		if err != nil {
			return nil, usage("", "--token-file: %w", err)
		}
		c.token = strings.TrimSpace(string(b))
	}
	return c, nil
}

func (c *topClient) get(ctx context.Context) (*topAnswer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.target, nil)
	if err != nil {
		return nil, usage("", "--url: %w", err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	when := time.Now()
	res, err := c.client.Do(r)
	if err != nil {
		return nil, noAnswer(exitStore, c.from, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxTop))
	if err != nil {
		return nil, noAnswer(exitStore, c.from, err)
	}
	switch res.StatusCode {
	case http.StatusOK:
		return parseTop(body, c.from, when)
	case http.StatusUnauthorized:
		return nil, usage("name the file with the operators' token by --token-file, or set $WEIR_ADMIN_TOKEN", "%s: authentication required: the bearer token is missing or wrong", c.from)
	}
	return nil, usage("is --url the address of weir's admin listener, and does the policy exist?", "%s answers %s: %s", c.from, res.Status, problemDetail(body))
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
