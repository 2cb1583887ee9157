package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/redact"
)

// maxTop is the largest answer that is read, in bytes.
const maxTop = 16 << 20

// topAsker asks a running weir.
type topAsker struct {
	client *http.Client
	from   string // for people
	target string
	token  string
}

func newTopAsker(o *topOptions) (*topAsker, error) {
	client, base, err := clientOf(o.url)
	if err != nil {
		return nil, err
	}
	a := &topAsker{from: o.url, client: client}
	query := url.Values{"n": {strconv.Itoa(o.n)}}
	if o.policy != "" {
		query.Set("policy", o.policy)
	}
	a.target = base + "/v1/top?" + query.Encode()
	a.token = os.Getenv("WEIR_ADMIN_TOKEN")
	if o.token != "" {
		b, err := os.ReadFile(o.token)
		if err != nil {
			return nil, usage("", "--token-file: %w", err)
		}
		a.token = strings.TrimSpace(string(b))
	}
	return a, nil
}

// look asks once.
func (a *topAsker) look(ctx context.Context) (*looked, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.target, nil)
	if err != nil {
		return nil, usage("", "--url: %w", err)
	}
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	when := time.Now()
	res, err := a.client.Do(r)
	if err != nil {
		return nil, &failure{code: exitStore, err: fmt.Errorf("%s does not answer: %w", a.from, redact.Error(err)), next: "does weir serve run there?"}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxTop))
	if err != nil {
		return nil, &failure{code: exitStore, err: fmt.Errorf("%s broke off its answer: %w", a.from, err)}
	}
	switch res.StatusCode {
	case http.StatusOK:
		return newLooked(body, a.from, when)
	case http.StatusUnauthorized:
		return nil, usage("name a file with the token of operators by --token-file, or set $WEIR_ADMIN_TOKEN", "%s does not know who asks", a.from)
	}
	return nil, usage("is --url the address of weir's admin listener, and is there such a policy?", "%s answers %s: %s", a.from, res.Status, problemIn(body))
}

// problemIn is what a problem document says, in characters that can be printed.
func problemIn(body []byte) string {
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
