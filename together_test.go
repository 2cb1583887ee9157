package weir

import (
	"context"
	"errors"
	"fmt"
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

// TestTogetherMerges: units of several calls for one history are one entry, and costs add.
func TestTogetherMerges(t *testing.T) {
	l := mustNew(t, Policy{Name: "p", Limits: []Limit{
		{Name: "units", Max: 10, Window: time.Hour, By: []string{"user"}, MinInterval: time.Minute},
		{Name: "calls", Max: 3, Window: time.Hour, Cost: 1},
	}})
	calls := []Call{attempt(l, K("a"), 2), attempt(l, K("b"), 5), attempt(l, K("a"), 3)}
	if err := DecideTogether(ctx, calls); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{5, 5, 5} {
		if d, s := calls[i].Decision, calls[i].Request.States; !d.Allowed || d.Granted != []int64{2, 5, 3}[i] || d.Remaining != 0 || s[0].Used != want || s[1].Used != 3 {
			t.Errorf("call %d: %+v, %+v", i, d, s)
		}
	}
	again := []Call{attempt(l, K("c"), 11), attempt(l, K("a"), 1)}
	if err := DecideTogether(ctx, again); err != nil || again[0].Decision.Limit != "units" || again[1].Decision.Limit != "calls" || again[1].Decision.RetryAfter != Never {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestTogetherKeepsPoliciesApart: limits of the same name are charged in the policy of their call.
func TestTogetherKeepsPoliciesApart(t *testing.T) {
	m := NewMemory()
	sent, received := mustNew(t, capped("sent", 10), WithEngine(m)), mustNew(t, capped("received", 10), WithEngine(m))
	if err := DecideTogether(ctx, []Call{attempt(sent, K("a"), 4), attempt(received, K("a"), 3)}); err != nil {
		t.Fatal(err)
	}
	for l, want := range map[*Limiter]int64{sent: 4, received: 3} {
		if n, err := l.Count(ctx, K("a"), "day", time.Hour); n != want || err != nil {
			t.Errorf("policy %q is charged %d, %v; want %d", l.rules.Name, n, err, want)
		}
	}
}

// TestTogetherPeeks: a call of 0 units takes none. It denies the others without room, or
// within a minimum interval, and a call of other units for its history is charged.
func TestTogetherPeeks(t *testing.T) {
	m := NewMemory()
	l := mustNew(t, capped("p", 2), WithEngine(m))
	apart := capped("apart", 9)
	apart.Limits[0].MinInterval = time.Minute
	spaced := mustNew(t, apart, WithEngine(m))
	begin := time.Unix(7000, 0)
	at := func(after time.Duration, calls ...Call) []Call {
		t.Helper()
		for i := range calls {
			calls[i].Request.At = begin.Add(after)
		}
		if err := DecideTogether(ctx, calls); err != nil {
			t.Fatal(err)
		}
		return calls
	}
	peek := attempt(l, K("b"), 0)
	peek.Request.Op = OpPeek
	for i, c := range at(0, attempt(l, K("a"), 1), attempt(l, K("b"), 0), peek, attempt(spaced, K("a"), 0)) {
		if d := c.Decision; !d.Allowed || d.Granted != c.Request.N || d.Limit != "" || d.RetryAfter != 0 {
			t.Errorf("granted: call %d: %+v", i, d)
		}
	}
	if m.Len() != 1 {
		t.Errorf("%d histories, want that of the attempt", m.Len())
	}
	both := at(0, attempt(l, K("b"), 0), attempt(l, K("b"), 2))
	if a, b := both[0].Decision, both[1].Decision; !a.Allowed || a.Remaining != 0 || b.Granted != 2 || both[0].Request.States[0].Used != 2 {
		t.Errorf("a peek and an attempt of one history: %+v, %+v", a, b)
	}
	if d := at(0, attempt(l, K("b"), 0), attempt(l, K("c"), 1))[0].Decision; !d.Allowed {
		t.Errorf("0 units fit in a room of 0: %+v", d)
	}
	if _, err := l.At(begin).Record(ctx, K("b"), 1); err != nil {
		t.Fatal(err)
	}
	for i, c := range at(time.Second, attempt(l, K("b"), 0), attempt(l, K("c"), 1)) {
		if d := c.Decision; d.Allowed || d.RetryAfter != 24*time.Hour-time.Second || d.Limit != []string{"day", ""}[i] {
			t.Errorf("below 0: call %d: %+v", i, d)
		}
	}
	if d := at(0, attempt(spaced, K("a"), 1))[0].Decision; !d.Allowed {
		t.Errorf("a peek has begun an interval: %+v", d)
	}
	for i, c := range at(time.Second, attempt(l, K("c"), 1), attempt(spaced, K("a"), 0)) {
		if d := c.Decision; d.Allowed || d.RetryAfter != 59*time.Second || d.Limit != []string{"", "day"}[i] {
			t.Errorf("within the interval: call %d: %+v", i, d)
		}
	}
	// Without units the whole is a peek: it stores nothing, not even a correction of the clock (R4).
	at(-time.Minute, attempt(l, K("a"), 0))
	if d := at(-time.Millisecond, attempt(l, K("a"), 0))[0].Decision; !d.At.Equal(begin) {
		t.Errorf("the peek of the whole has moved the history to %v", d.At)
	}
}

// TestTogetherRejects: bad input of one call is an error that names it, and changes nothing.
func TestTogetherRejects(t *testing.T) {
	m := NewMemory()
	l := mustNew(t, capped("p", 10), WithEngine(m))
	good := func() Call { return attempt(l, K("a"), 1) }
	with := func(change func(c *Call)) Call { c := good(); change(&c); return c }
	wide := Policy{Name: "wide"}
	var few [8]string
	for i := range 9 {
		wide.Limits = append(wide.Limits, Limit{Name: fmt.Sprint(i), Max: 1, Window: time.Hour, By: []string{"account"}})
	}
	many := Limit{Name: "many", Max: 1, Window: time.Hour, By: []string{"account"}}
	for i := range few {
		many.By = append(many.By, fmt.Sprint("d", i))
	}
	held := Policy{Name: "held", Limits: []Limit{{Name: "day", Kind: Concurrency, Max: 10, MaxHold: time.Hour, By: []string{"account"}}}}
	counting := capped("counting", 10)
	counting.Mode = CountDenied
	w := mustNew(t, wide, WithEngine(m))
	deep := mustNew(t, Policy{Name: "deep", Limits: []Limit{many}}, WithEngine(m))
	for name, c := range map[string]struct {
		call Call
		err  error
		text string
	}{
		"a key":           {with(func(c *Call) { c.Key = K() }), errKey, "account"},
		"units":           {with(func(c *Call) { c.Request.N = -1 }), errUnits, "-1"},
		"a peek of units": {with(func(c *Call) { c.Request.Op = OpPeek }), errRequest, "peeks of 0 units"},
		"a record":        {with(func(c *Call) { c.Request.Op = OpRecord }), errRequest, "attempts"},
		"a record of 0":   {with(func(c *Call) { c.Request.Op, c.Request.N = OpRecord, 0 }), errRequest, "attempts"},
		"a refund":        {with(func(c *Call) { c.Request = Request{Op: OpRefund, N: 1, From: time.Unix(7, 0)} }), errRequest, "attempts"},
		"concurrency":     {attempt(mustNew(t, held, WithEngine(m)), K("a"), 1), errRequest, `limit "day" of kind Concurrency`},
		"a peek of holds": {attempt(mustNew(t, held, WithEngine(m)), K("a"), 0), errRequest, `limit "day" of kind Concurrency`},
		"an id":           {with(func(c *Call) { c.Request.ID = "x" }), errRequest, "idempotency"},
		"another instant": {with(func(c *Call) { c.Request.At = time.Unix(7, 0) }), errRequest, "instant"},
		"states":          {with(func(c *Call) { c.Request.States = make([]LimitState, 2) }), errRequest, "states"},
		"a mode":          {attempt(mustNew(t, counting, WithEngine(m)), K("a"), 1), errRequest, "counts denied"},
		"another Max":     {attempt(mustNew(t, capped("p", 11), WithEngine(m)), K("a"), 1), errRequest, "earlier call and other numbers"},
		"a sum":           {with(func(c *Call) { c.Request.N = MaxUnits }), errUnits, "earlier call"},
	} {
		calls := []Call{good(), c.call, good()}
		var of *CallError
		err := DecideTogether(ctx, calls)
		if !errors.As(err, &of) || of.Call != 1 || !errors.Is(err, c.err) || !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.text) || calls[0].Decision != (Decision{}) {
			t.Errorf("%s: %v, want %v with %q of call 1", name, err, c.err, c.text)
		}
	}
	for name, calls := range map[string][]Call{
		"17 limits":        {attempt(w, K("a"), 1), attempt(w, K("b"), 1)},
		"different values": {attempt(deep, K("a", "1", "2", "3", "4", "5", "6", "7", "8"), 1), attempt(deep, K("b", "2", "3", "4", "5", "6", "7", "8", "9"), 1)},
	} {
		if err := DecideTogether(ctx, calls); !errors.Is(err, errRequest) || !strings.Contains(err.Error(), "call 1:") || !strings.Contains(err.Error(), "at most 16") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m.Len() != 0 {
		t.Errorf("%d histories after bad input, want none", m.Len())
	}
	if err := DecideTogether(ctx, []Call{good(), {Key: K("a"), Request: Request{N: 1}}}); !errors.Is(err, errZeroLimiter) {
		t.Error("the zero Limiter decided")
	}
	// Instants are cut to whole microseconds (R1), so these two are one.
	begin := time.Unix(7, 0)
	one, other := good(), good()
	one.Request.At, other.Request.At = begin, begin.Add(999)
	if err := DecideTogether(ctx, []Call{one, other}); err != nil {
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
