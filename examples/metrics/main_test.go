package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// someUser is the key of all decisions: no metric may contain it.
const someUser = "ann@example.com"

// decideAlike makes real decisions with every outcome on an observed engine. Each takes a
// millisecond, so run it in virtual time.
func decideAlike(t *testing.T, observe observer) {
	t.Helper()
	ctx, key := t.Context(), weir.K(someUser)
	store := weirtest.NewFaulty(weir.NewMemory())
	onStore := weir.WithEngine(weir.Observe(store, observe))
	store.Break(weirtest.Slow(time.Millisecond))
	push, err := weir.New(weir.Policy{Name: "push", Limits: []weir.Limit{
		{Name: "minute", Max: 2, Window: time.Minute, By: []string{"user"}},
		{Name: "day", Max: 3, Window: 24 * time.Hour},
	}}, onStore)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := weir.New(weir.Policy{Name: "batch", Mode: weir.Partial, Limits: []weir.Limit{
		{Name: "minute", Max: 5, Window: time.Minute, By: []string{"user"}},
	}}, onStore)
	if err != nil {
		t.Fatal(err)
	}

	first, err := push.AllowOnce(ctx, key, 1, "id") // allowed
	if err != nil {
		t.Fatal(err)
	}
	if _, err := push.AllowOnce(ctx, key, 1, "id"); err != nil {
		t.Fatal(err)
	} // replayed
	if _, err := push.Allow(ctx, key); err != nil {
		t.Fatal(err)
	} // allowed
	for range 3 {
		if _, err := push.Allow(ctx, key); err != nil {
			t.Fatal(err)
		} // denied by minute
	}
	if _, err := push.AllowN(ctx, key, 2); err != nil {
		t.Fatal(err)
	} // denied by day, for longer
	if _, err := push.Peek(ctx, key, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := push.Count(ctx, key, "minute", time.Second); err != nil {
		t.Fatal(err)
	} // a peek, too
	if _, err := push.Record(ctx, key, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := push.Refund(ctx, key, first.At, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := push.Reset(ctx, key); err != nil {
		t.Fatal(err)
	}
	if _, err := batch.AllowN(ctx, key, 9); err != nil {
		t.Fatal(err)
	} // granted in part

	store.Break(weirtest.Down())
	_, err = push.Allow(ctx, key)
	assert.Error(t, err, weir.ErrUnavailable)
}

// outcomes are the calls of decideAlike by policy and outcome, sorted.
var outcomes = []string{
	"batch partial 1",
	"push allowed 2",
	"push denied 4",
	"push error 1",
	"push peeked 2",
	"push recorded 1",
	"push refunded 1",
	"push replayed 1",
	"push reset 1",
}

// TestOutcomesOfReservationsAndBlocks: an engine reports them in the words of weir serve.
func TestOutcomesOfReservationsAndBlocks(t *testing.T) {
	var got []string
	observe := func(_ context.Context, c *engine.Call, _ time.Duration) { got = append(got, outcome(c)) }
	tokens, err := weir.New(weir.Policy{Name: "tokens", Limits: []weir.Limit{weir.PerHour(10, "user")}},
		weir.WithEngine(weir.Observe(weir.NewMemory(), observe)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, key := t.Context(), weir.K(someUser)
	answer, _, err := tokens.Reserve(ctx, key, weir.Request{N: 5}) // allowed
	must.Do(t, err)
	if _, err := answer.Add(ctx, 6); err != nil {
		t.Fatal(err)
	} // denied
	if _, err := answer.Add(ctx, 2); err != nil {
		t.Fatal(err)
	} // allowed
	must.Do(t, answer.Extend(ctx))    // recorded
	must.Do(t, answer.Commit(ctx, 6)) // refunded
	must.Do(t, answer.Commit(ctx, 6)) // replayed
	assert.Error(t, answer.Done(ctx), weir.ErrSettled)
	answer, _, err = tokens.Reserve(ctx, key, weir.Request{N: 1}) // allowed
	must.Do(t, err)
	must.Do(t, answer.Done(ctx)) // recorded
	if _, err := tokens.Block(ctx, key, time.Minute); err != nil {
		t.Fatal(err)
	} // blocked
	probe := weir.Call{Limiter: tokens, Key: key, Op: engine.Probe, Request: weir.Request{N: 1}}
	if _, err := probe.Do(ctx); err != nil {
		t.Fatal(err)
	} // denied
	want := "allowed denied allowed recorded refunded replayed error allowed recorded blocked denied"
	assert.Equal(t, strings.Join(got, " "), want, "outcomes")
}

// TestServerShowsItsDecisions: the page of metrics has the decisions of the requests.
func TestServerShowsItsDecisions(t *testing.T) {
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	get := func(path string) (status int, body string) {
		request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	for i := range 7 {
		want := http.StatusOK
		if i >= 5 {
			want = http.StatusTooManyRequests
		}
		status, _ := get("/")
		assert.Equal(t, status, want, "status of request %d", i+1)
	}
	_, page := get("/metrics")
	for _, want := range []string{
		`weir_decisions_total{outcome="allowed",policy="search"} 5`,
		`weir_decisions_total{outcome="denied",policy="search"} 2`,
		`weir_denials_total{limit="limit",policy="search"} 2`,
		`weir_decision_duration_seconds_count{policy="search"} 7`,
	} {
		assert.Equal(t, strings.Contains(page, want+"\n"), true, "%s in\n%s", want, page)
	}
}
