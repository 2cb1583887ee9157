package weirhttp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// renders allows 3 at once for at most 30s, and 100 an hour.
var renders = weir.Policy{Name: "renders", Limits: []weir.Limit{
	{Name: "running", Kind: weir.KindConcurrency, Max: 3, MaxHold: 30 * time.Second},
	{Name: "hour", Max: 100, Window: time.Hour},
}}

// used returns the units that count in each limit.
func used(t *testing.T, l *weir.Limiter) (units []int64) {
	t.Helper()
	states := make([]weir.LimitState, len(l.Compiled().Limits))
	if _, err := (&weir.Call{Limiter: l, Key: weir.K(), Op: engine.Peek, Request: weir.Request{N: 1, States: states}}).Do(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		units = append(units, s.Used)
	}
	return units
}

// TestMiddlewareHoldsUntilTheHandlerReturns: of many concurrent requests at most Max are
// served, and holds end with their handlers, also with one that panics. A request that is
// denied for concurrency charges no rate.
func TestMiddlewareHoldsUntilTheHandlerReturns(t *testing.T) {
	l := newLimiter(t, renders)
	var running, served atomic.Int64
	s := httptest.NewUnstartedServer(Middleware(l, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := running.Add(1); n > 3 {
			t.Errorf("%d handlers run", n)
		}
		defer running.Add(-1)
		if o, ok := FromContext(r.Context()); !ok || o.States[0].Name != "running" {
			t.Errorf("the outcome: %+v, %v", o, ok)
		}
		if served.Add(1)%3 == 0 {
			panic(http.ErrAbortHandler)
		}
		time.Sleep(time.Millisecond)
	})))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	defer s.Close()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 8 {
				if r, err := s.Client().Get(s.URL); err == nil {
					io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
			}
		})
	}
	all.Wait()
	s.Close() // waits for the handlers
	if got := used(t, l); got[0] != 0 || got[1] != min(100, served.Load()) {
		t.Errorf("%d are held and %d count, want 0 and %d", got[0], got[1], served.Load())
	}
}

// TestMiddlewareHoldPanics: the panic of a handler reaches the server unchanged.
func TestMiddlewareHoldPanics(t *testing.T) {
	l := newLimiter(t, renders)
	h := Middleware(l, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if got := used(t, l); got[0] != 1 {
			t.Errorf("%d are held in the handler, want 1", got[0])
		}
		panic("a fault")
	}))
	if p := assert.Recovered(func() { get(h) }); p != "a fault" {
		t.Errorf("recovered %v", p)
	}
	if got := used(t, l); got[0] != 0 || got[1] != 1 {
		t.Errorf("after the panic %v count, want 0 and 1", got)
	}
}

// TestMiddlewareHoldEndedByTime: a handler that runs for too long is reported.
func TestMiddlewareHoldEndedByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newLimiter(t, renders)
		h := Middleware(l, nil, ErrorLog(slog.New(slog.NewTextHandler(&log, nil))))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(30 * time.Second) }))
		get(h)
		if got := used(t, l); got[0] != 0 || got[1] != 1 || !strings.Contains(log.String(), "it ends by time") {
			t.Errorf("%v count, and the log has %q", got, log.String())
		}
	})
}
