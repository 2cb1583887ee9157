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

	succeed := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first, err := push.AllowOnce(ctx, key, 1, "id") // allowed
	if err != nil {
		t.Fatal(err)
	}
	succeed(push.AllowOnce(ctx, key, 1, "id")) // replayed
	succeed(push.Allow(ctx, key))              // allowed
	for range 3 {
		succeed(push.Allow(ctx, key)) // denied by minute
	}
	succeed(push.AllowN(ctx, key, 2)) // denied by day, for longer
	succeed(push.Peek(ctx, key, 1))
	succeed(push.Count(ctx, key, "minute", time.Second)) // a peek, too
	succeed(push.Record(ctx, key, 1))
	succeed(push.Refund(ctx, key, first.At, 1))
	succeed(push.Reset(ctx, key))
	succeed(batch.AllowN(ctx, key, 9)) // granted in part

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
	succeed := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	answer, _, err := tokens.Reserve(ctx, key, weir.Request{N: 5}) // allowed
	must.Do(t, err)
	succeed(answer.Add(ctx, 6))       // denied
	succeed(answer.Add(ctx, 2))       // allowed
	must.Do(t, answer.Extend(ctx))    // recorded
	must.Do(t, answer.Commit(ctx, 6)) // refunded
	must.Do(t, answer.Commit(ctx, 6)) // replayed
	assert.Error(t, answer.Done(ctx), weir.ErrSettled)
	answer, _, err = tokens.Reserve(ctx, key, weir.Request{N: 1}) // allowed
	must.Do(t, err)
	must.Do(t, answer.Done(ctx))                 // recorded
	succeed(tokens.Block(ctx, key, time.Minute)) // blocked
	probe := weir.Call{Limiter: tokens, Key: key, Op: engine.Probe, Request: weir.Request{N: 1}}
	succeed(probe.Do(ctx)) // denied
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
