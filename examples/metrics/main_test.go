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
	push := must.Get(weir.New(weir.Policy{Name: "push", Limits: []weir.Limit{
		{Name: "minute", Max: 2, Window: time.Minute, By: []string{"user"}},
		{Name: "day", Max: 3, Window: 24 * time.Hour},
	}}, onStore))(t)
	batch := must.Get(weir.New(weir.Policy{Name: "batch", Mode: weir.Partial, Limits: []weir.Limit{
		{Name: "minute", Max: 5, Window: time.Minute, By: []string{"user"}},
	}}, onStore))(t)

	first := must.Get(push.AllowOnce(ctx, key, 1, "id"))(t) // allowed
	must.Get(push.AllowOnce(ctx, key, 1, "id"))(t)          // replayed
	must.Get(push.Allow(ctx, key))(t)                       // allowed
	for range 3 {
		must.Get(push.Allow(ctx, key))(t) // denied by minute
	}
	must.Get(push.AllowN(ctx, key, 2))(t) // denied by day, for longer
	must.Get(push.Peek(ctx, key, 1))(t)
	must.Get(push.Count(ctx, key, "minute", time.Second))(t) // a peek, too
	must.Get(push.Record(ctx, key, 1))(t)
	must.Get(push.Refund(ctx, key, first.At, 1))(t)
	must.Get(push.Reset(ctx, key))(t)
	must.Get(batch.AllowN(ctx, key, 9))(t) // granted in part

	store.Break(weirtest.Down())
	assert.Err(push.Allow(ctx, key))(t, weir.ErrUnavailable)
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
	tokens := must.Get(weir.New(weir.Policy{Name: "tokens", Limits: []weir.Limit{weir.PerHour(10, "user")}},
		weir.WithEngine(weir.Observe(weir.NewMemory(), observe))))(t)
	ctx, key := t.Context(), weir.K(someUser)
	answer, _, err := tokens.Reserve(ctx, key, weir.Request{N: 5}) // allowed
	must.Do(t, err)
	must.Get(answer.Add(ctx, 6))(t)   // denied
	must.Get(answer.Add(ctx, 2))(t)   // allowed
	must.Do(t, answer.Extend(ctx))    // recorded
	must.Do(t, answer.Commit(ctx, 6)) // refunded
	must.Do(t, answer.Commit(ctx, 6)) // replayed
	assert.Error(t, answer.Done(ctx), weir.ErrSettled)
	answer, _, err = tokens.Reserve(ctx, key, weir.Request{N: 1}) // allowed
	must.Do(t, err)
	must.Do(t, answer.Done(ctx))                     // recorded
	must.Get(tokens.Block(ctx, key, time.Minute))(t) // blocked
	probe := weir.Call{Limiter: tokens, Key: key, Op: engine.Probe, Request: weir.Request{N: 1}}
	must.Get(probe.Do(ctx))(t) // denied
	want := "allowed denied allowed recorded refunded replayed error allowed recorded blocked denied"
	assert.Equal(t, strings.Join(got, " "), want, "outcomes")
}

// TestServerShowsItsDecisions: the page of metrics has the decisions of the requests.
func TestServerShowsItsDecisions(t *testing.T) {
	server := httptest.NewServer(must.Get(newHandler())(t))
	defer server.Close()
	get := func(path string) (status int, body string) {
		request := must.Get(http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil))(t)
		response := must.Get(server.Client().Do(request))(t)
		defer response.Body.Close()
		return response.StatusCode, string(must.Get(io.ReadAll(response.Body))(t))
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
