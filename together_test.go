package weir

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

// capped is the policy of a transfer: units of the day, by account.
func capped(name string, max int64) Policy {
	return Policy{Name: name, Limits: []Limit{{Name: "day", Max: max, Window: 24 * time.Hour, By: []string{"account"}}}}
}

func attempt(l *Limiter, k Key, n int64) Call {
	return Call{Limiter: l, Key: k, Request: Request{N: n, States: make([]LimitState, len(l.rules.Limits))}}
}

// TestR7Together: calls of several policies, keys and modes are granted or denied as one.
// Each has the room of its own limits, and the wait of all.
func TestR7Together(t *testing.T) {
	m := NewMemory()
	sent := mustNew(t, capped("sent", 10), WithEngine(m))
	received := mustNew(t, Policy{Name: "received", Mode: Partial, Limits: []Limit{
		{Name: "day", Max: 5, Window: 24 * time.Hour, By: []string{"account"}},
		{Name: "hour", Max: 100, Window: time.Hour, By: []string{"account", "bank"}},
		{Name: "all", Max: 1000, Window: time.Hour},
	}}, WithEngine(m))
	transfer := func(n int64) []Call {
		return []Call{attempt(sent, K("a"), n), attempt(received, K("b", "x"), n)}
	}
	calls := transfer(4)
	if err := DecideTogether(ctx, calls); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{6, 1} {
		if d := calls[i].Decision; !d.Allowed || d.Granted != 4 || d.Remaining != want || d.RetryAfter == 0 || d.Limit != "" || calls[i].Err != nil || d.At != calls[0].Decision.At {
			t.Errorf("granted: call %d has %+v, want %d left", i, d, want)
		}
	}
	if a, b := calls[0].Request.States, calls[1].Request.States; a[0].Used != 4 || b[0].Used != 4 || b[0].Max != 5 || b[1].Used != 4 || b[1].Window != time.Hour || b[2].Remaining != 996 {
		t.Errorf("states %+v, %+v", a, b)
	}
	denied := transfer(4)
	if err := DecideTogether(ctx, denied); err != nil {
		t.Fatal(err)
	}
	a, b := denied[0].Decision, denied[1].Decision
	if a.Allowed || a.Granted != 0 || a.Limit != "" || a.Remaining != 6 || a.RetryAfter != b.RetryAfter || a.At != b.At {
		t.Errorf("the call with room: %+v", a)
	}
	if b.Allowed || b.Granted != 0 || b.Limit != "day" || b.Remaining != 1 || b.RetryAfter <= 23*time.Hour || b.ResetAfter != b.RetryAfter {
		t.Errorf("the call without room: %+v", b)
	}
	if n, err := sent.Count(ctx, K("a"), "day", time.Hour); n != 4 || err != nil {
		t.Errorf("the sender is charged %d, %v; want 4", n, err)
	}
	if err := DecideTogether(ctx, transfer(6)[:0]); err != nil {
		t.Error(err)
	}
	never := transfer(6)
	if err := DecideTogether(ctx, never); err != nil || never[0].Decision.RetryAfter != Never || never[1].Decision.Limit != "day" || never[0].Decision.Limit != "" {
		t.Errorf("%+v, %v; want never", never, err)
	}
}

// TestTogetherRejects: bad input of one call is an error that names it, and changes nothing.
// Package engine has a test of calls that cannot be decided with others.
func TestTogetherRejects(t *testing.T) {
	m := NewMemory()
	l, other := mustNew(t, capped("p", 10), WithEngine(m)), mustNew(t, capped("p", 10))
	good := func() Call { return attempt(l, K("a"), 1) }
	for text, c := range map[string]struct {
		call Call
		err  error
	}{
		"counts by":      {attempt(l, K(), 1), errKey},
		"-1; use 0":      {attempt(l, K("a"), -1), errUnits},
		"2 states":       {Call{Limiter: l, Key: K("a"), Request: Request{N: 1, States: make([]LimitState, 2)}}, errRequest},
		"use 1970-01-01": {Call{Limiter: l, Key: K("a"), Request: Request{N: 1, At: time.Unix(-7, 0)}}, errInstant},
		"earlier call":   {attempt(l, K("a"), MaxUnits), errUnits},
		"another engine": {attempt(other, K("a"), 1), errRequest},
		"weir.New":       {Call{Key: K("a"), Request: Request{N: 1}}, errZeroLimiter},
	} {
		calls := []Call{good(), c.call, good()}
		calls[0].Decision.Allowed = true // of an earlier use
		var of *CallError
		err := DecideTogether(ctx, calls)
		if !errors.As(err, &of) || of.Call != 1 || !errors.Is(err, c.err) || !strings.Contains(err.Error(), text) || calls[0].Decision != (Decision{}) {
			t.Errorf("%v, %+v; want %v of call 1 with %q", err, calls[0].Decision, c.err, text)
		}
	}
	if m.Len() != 0 {
		t.Errorf("%d histories after bad input, want none", m.Len())
	}
	// Instants are cut to whole microseconds (R1), so these two are one.
	begin := time.Unix(7, 0)
	one, same := good(), good()
	one.Request.At, same.Request.At = begin, begin.Add(999)
	if err := DecideTogether(ctx, []Call{one, same}); err != nil {
		t.Error(err)
	}
	// Other numbers of the limit for another key are no mistake.
	if err := DecideTogether(ctx, []Call{good(), attempt(mustNew(t, capped("p", 11), WithEngine(m)), K("b"), math.MaxInt8)}); err != nil {
		t.Error(err)
	}
	// A limit of another kind has another history (R12).
	fixed := capped("p", 11)
	fixed.Limits[0].Kind = Fixed
	calls := []Call{good(), attempt(mustNew(t, fixed, WithEngine(m)), K("a"), 2)}
	if err := DecideTogether(ctx, calls); err != nil || calls[0].Decision.Remaining != 9 || calls[1].Decision.Remaining != 9 {
		t.Errorf("two kinds: %v, %+v", err, calls)
	}
}

// stateless is an engine that leaves states as they are.
type stateless struct{ engine.Engine }

func (e stateless) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].States = nil
	}
	e.Engine.Do(ctx, calls)
}

// TestTogetherWithoutStates: without states each call has the room of the whole, and of the
// limits those are known that never grant so many units.
func TestTogetherWithoutStates(t *testing.T) {
	l := mustNew(t, capped("p", 10), WithEngine(stateless{NewMemory()}))
	for _, c := range []struct {
		sent, remaining int64
		limit           string
	}{{3, 7, ""}, {11, 7, "day"}} {
		calls := []Call{attempt(l, K("a"), c.sent), attempt(l, K("b"), 1)}
		if err := DecideTogether(ctx, calls); err != nil {
			t.Fatal(err)
		}
		for i, limit := range []string{c.limit, ""} {
			if d := calls[i].Decision; d.Allowed != (c.limit == "") || d.Remaining != c.remaining || d.Limit != limit {
				t.Errorf("%d units, call %d: %+v", c.sent, i, d)
			}
		}
	}
	failing := mustNew(t, capped("p", 10), WithEngine(blindEngine{err: ErrFull}))
	calls := []Call{attempt(failing, K("a"), 1)}
	calls[0].Decision.Allowed = true
	if err := DecideTogether(ctx, calls); err != ErrFull || calls[0].Decision != (Decision{}) || calls[0].Request.States[0] != (LimitState{}) {
		t.Errorf("%v, %+v; want ErrFull and nothing else", err, calls[0])
	}
}
