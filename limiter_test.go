package weir

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// The kinds of bad input, for errors.Is.
var (
	errUnits   = &InputError{Field: "units"}
	errKey     = &InputError{Field: "key"}
	errInstant = &InputError{Field: "instant"}
	errLimit   = &InputError{Field: "limit"}
	errSpan    = &InputError{Field: "span"}
	errID      = &InputError{Field: "id"}
	errRequest = &InputError{Field: "request"}
)

// failed returns the error of a call.
func failed[T any](_ T, err error) error { return err }

// TestR14BadInput: bad input is an error that names the mistake, and changes nothing.
func TestR14BadInput(t *testing.T) {
	m := NewMemory()
	l := mustNew(t, perUser(5, time.Minute), WithEngine(m))
	k, at := K("42"), time.UnixMicro(1_700_000_000_000_000)
	decide := func(r Request) error { return failed(l.Decide(ctx, k, r)) }
	call := func(c Call) error {
		c.Limiter, c.Key = l, k
		return failed(c.Do(ctx))
	}
	reserve := func(r Request) error {
		_, _, err := l.Reserve(ctx, k, r)
		return err
	}
	longID := strings.Repeat("x", MaxIDBytes+1)
	apart := Policy{Name: "apart", Dimensions: []string{"user", "ip"}, Limits: []Limit{
		{Name: "user", Max: 1, Window: time.Minute, By: []string{"user"}},
		{Name: "ip", Max: 1, Window: time.Minute, By: []string{"ip"}},
	}}
	both := mustNew(t, Policy{Name: "both", Dimensions: []string{"tenant", "user"}, Limits: []Limit{
		{Name: "user", Max: 1, Window: time.Minute, By: []string{"tenant", "user"}},
		{Name: "tenant", Max: 1, Window: time.Minute, By: []string{"tenant"}},
	}})
	if _, err := l.Record(ctx, K("o"), MaxUnits); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err, want error
		says      string
	}{
		"n < 0":              {failed(l.AllowN(ctx, k, -1)), errUnits, "-1"},
		"n lowest":           {failed(l.AllowN(ctx, k, math.MinInt64)), errUnits, "use 0 to 2251799813685247"},
		"n > MaxUnits":       {failed(l.AllowN(ctx, k, MaxUnits+1)), errUnits, "2251799813685248"},
		"no value":           {failed(l.Allow(ctx, K())), errKey, `["user"]`},
		"two values":         {failed(l.Allow(ctx, K("a", "b"))), errKey, "this key has 2 values; pass weir.K(user)"},
		"five values":        {failed(l.Allow(ctx, K("a", "b", "c", "d", "e"))), errKey, "this key has 5 values"},
		"long value":         {failed(l.Allow(ctx, K(strings.Repeat("x", MaxValueBytes+1)))), errKey, `"user" is 1025 bytes`},
		"empty value":        {failed(l.Allow(ctx, K(""))), errKey, `"user" is empty`},
		"wait, empty value":  {failed(l.Wait(ctx, K(""))), errKey, `"user" is empty`},
		"peek n < 0":         {failed(l.Peek(ctx, k, -1)), errUnits, ""},
		"record n < 0":       {failed(l.Record(ctx, k, -1)), errUnits, ""},
		"record too much":    {failed(l.Record(ctx, K("o"), 1)), ErrOverflow, `"user"`},
		"refund n < 0":       {failed(l.Refund(ctx, k, at, -1)), errUnits, ""},
		"refund 0, no grant": {failed(l.Refund(ctx, k, time.Time{}, 0)), errInstant, "such as the At of the grant's Decision"},
		"refund before 1970": {failed(l.Refund(ctx, k, time.Time{}, 1)), errInstant, "such as the At of the grant's Decision"},
		"refund of no grant": {call(Call{Op: engine.Refund, Request: Request{N: 1}}), errInstant, "such as the At of the grant's Decision"},
		"refund with a TTL":  {call(Call{Op: engine.Refund, From: at, Request: Request{N: 1, TTL: time.Second}}), errRequest, "leave it out"},
		"refund with states": {call(Call{Op: engine.Refund, From: at, Request: Request{N: 1, States: make([]LimitState, 1)}}), errRequest, "leave them out"},
		"reset key":          {failed(l.Reset(ctx, K())), errKey, ""},
		"reset limit":        {failed(l.Reset(ctx, k, "user", "users")), errLimit, `no limit "users"; use one of ["user"]`},
		"reset named key":    {failed(l.Reset(ctx, K("a", "b"), "user")), errKey, `takes the values of ["user"]`},
		"reset all named":    {failed(both.Reset(ctx, K("a"), "user", "tenant")), errKey, `a reset of ["user" "tenant"] takes the values of ["tenant" "user"]; this key has 1`},
		"reset too few":      {failed(both.Reset(ctx, K("a"))), errKey, `this key has 1; or name limits that count by fewer values: ["tenant"]`},
		"reset too many":     {failed(both.Reset(ctx, K("a", "b", "c"))), errKey, `this key has 3`},
		"reset of none":      {failed(mustNew(t, apart).Reset(ctx, K("a", "b"))), errLimit, `name one or more of ["user" "ip"]`},
		"reset zero":         {failed(new(Limiter).Reset(ctx, k)), nil, "weir.New"},
		"decide key":         {failed(l.Decide(ctx, K(), Request{})), errKey, ""},
		"states of two":      {decide(Request{N: 1, States: make([]LimitState, 2)}), errRequest, "room for 2 states"},
		"states of none":     {decide(Request{N: 1, States: []LimitState{}}), errRequest, "room for 0 states"},
		"time to live":       {decide(Request{N: 1, TTL: 1}), errRequest, "Limiter.Reserve"},
		"from":               {call(Call{From: at, Request: Request{N: 1}}), errRequest, "engine.Refund"},
		"unknown op":         {call(Call{Op: 77, Request: Request{N: 1}}), errRequest, "77"},
		"a count":            {call(Call{Op: engine.Count, Request: Request{N: 1}}), errRequest, "methods of a Limiter"},
		"attempt of 0":       {decide(Request{}), errUnits, "Peek"}, // a forgotten N was a silent peek
		"attempt of 0, id":   {decide(Request{ID: "a"}), errUnits, "Peek"},
		"record of 0":        {call(Call{Op: engine.Record}), errUnits, "Peek"},
		"refund of 0":        {call(Call{Op: engine.Refund, From: at}), errUnits, "Peek"},
		"reservation of 0":   {reserve(Request{}), errUnits, "Peek"},
		"no id":              {failed(l.AllowOnce(ctx, k, 1, "")), errID, "empty"},
		"long id":            {failed(l.AllowOnce(ctx, k, 1, longID)), errID, "129 bytes"},
		"long id, decided":   {decide(Request{N: 1, ID: longID}), errID, "129 bytes"},
		"before 1970":        {decide(Request{N: 1, At: time.Unix(0, -1).UTC()}), errInstant, "1969-12-31T23:59:59.999999999Z; use 1970-01-01T00:00:00Z to 2255-06-05T23:47:34.740991Z, or leave it out to decide now"},
		"after the last":     {failed(l.At(time.UnixMicro(MaxInstant+1)).Allow(ctx, k)), errInstant, "or call the Limiter itself to decide now"},
		"far away":           {failed(l.At(time.Unix(1<<58, 0)).Allow(ctx, k)), errInstant, ""},
		"far back":           {decide(Request{N: 1, At: time.Unix(-1<<58, 0)}), errInstant, ""},
		"behind no instant":  {decide(Request{N: 1, At: time.Time{}.Add(1)}), errInstant, "0001-01-01T00:00:00.000000001Z"},
		"wait n":             {failed(l.WaitN(ctx, k, -1)), errUnits, ""},
		"wait at":            {failed(l.At(at).Wait(ctx, k)), errInstant, "without an instant"},
		"count at":           {failed(l.At(time.Time{}).Count(ctx, k, "user", 1)), errInstant, ""},
		"refund at":          {failed(l.At(time.Time{}).Refund(ctx, k, at, 1)), errInstant, ""},
		"unknown limit":      {failed(l.Count(ctx, k, "users", time.Second)), errLimit, `"users"`},
		"span 0":             {failed(l.Count(ctx, k, "user", 0)), errSpan, "1m0s"},
		"span < 0":           {failed(l.Count(ctx, k, "user", -1)), errSpan, ""},
		"span > window":      {failed(l.Count(ctx, k, "user", time.Minute+1)), errSpan, ""},
		"zero at an instant": {failed(new(Limiter).At(at).Allow(ctx, k)), nil, "weir.New"},
		"nil limiter":        {failed((*Limiter)(nil).Allow(ctx, K())), nil, "weir.New"},
		"nil at an instant":  {failed((*Limiter)(nil).At(at).Allow(ctx, k)), nil, "weir.New"},
	} {
		if c.err == nil || c.want != nil && !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v …%s…", name, c.err, c.want, c.says)
		}
	}
	if n, err := l.Refund(ctx, k, at, 0); n != 0 || err != nil {
		t.Errorf("a refund of 0: got %d, %v; want 0", n, err)
	}
	if d, err := l.Peek(ctx, k, 5); err != nil || !d.Allowed || d.ResetAfter != 0 {
		t.Errorf("after all that: %+v %v, want untouched", d, err)
	}
	assert.Equal(t, m.Stats().Keys, 1, "keys with that which was recorded")
}

// TestInstantBounds: the texts of the first and the last instant are 0 and MaxInstant
// microseconds, and the text of an error has no reading of a monotonic clock.
func TestInstantBounds(t *testing.T) {
	for text, micros := range map[string]int64{firstInstant: 0, lastInstant: MaxInstant} {
		got, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, got.UnixMicro(), micros, "%s in µs", text)
	}
	if _, err := instant(time.Now().Add(-100*365*24*time.Hour), ""); err == nil || strings.Contains(err.Error(), "m=") {
		t.Errorf("got %v, want an instant without its monotonic reading", err)
	}
}

// TestDecideFillsStates: Decide makes the decision of AllowN and fills the states with
// those of the engine, also where stale values stand in the slice.
func TestDecideFillsStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		l, states := mustNew(t, limits(2)), make([]LimitState, 2)
		for i, want := range []struct {
			op   engine.Op
			used int64
		}{{engine.Attempt, 1}, {engine.Record, 3}, {engine.Peek, 3}, {engine.Attempt, 7}} {
			states[0].MinIntervalAfter, states[1].Name = time.Hour, "stale"
			c := Call{Limiter: l, Key: K("42"), Op: want.op, Request: Request{N: int64(i + 1), States: states}}
			d, err := c.Do(ctx)
			if !d.Allowed || err != nil {
				t.Errorf("step %d: got %v, %v", i, d, err)
			}
			for j, s := range states {
				limit := l.Compiled().Limits[j]
				if s.Name != limit.Name || s.Used != want.used || s.Remaining != limit.Max-want.used || s.MinIntervalAfter != 0 {
					t.Errorf("step %d: got state %+v, want %d used of limit %s", i, s, want.used, limit.Name)
				}
			}
		}
	})
}

// blindEngine decides without states; with err it fails after it has filled one.
type blindEngine struct{ err error }

func (e blindEngine) Do(_ context.Context, calls []engine.Call) {
	for i := range calls {
		if c := &calls[i]; e.err != nil {
			c.States[0].Name, c.Err = "half done", e.err
		}
	}
}

// TestDecideClearsStates: no state of an earlier decision remains.
func TestDecideClearsStates(t *testing.T) {
	for _, cause := range []error{nil, ErrFull} {
		l := mustNew(t, limits(2), WithEngine(blindEngine{err: cause}))
		states := []LimitState{{Name: "stale", Used: 7}, {Name: "stale"}}
		if _, err := l.Decide(ctx, K("42"), Request{N: 1, States: states}); err != cause || states[0] != (LimitState{}) || states[1] != (LimitState{}) {
			t.Errorf("an engine without states, error %v: got %v, %+v; want no state", cause, err, states)
		}
	}
}

// otherEngine hides the type of an engine, so that the limiter calls it through the
// interface.
type otherEngine struct{ engine.Engine }

// TestThroughTheInterface: direct calls of the memory engine and calls through the
// interface return the same decisions.
func TestThroughTheInterface(t *testing.T) {
	p := limits(2)
	direct, through := mustNew(t, p), mustNew(t, p, WithEngine(otherEngine{NewMemory()}))
	for i := range 300 {
		at, n := time.UnixMicro(1_700_000_000_000_000+int64(i)*7919), int64(i%5)
		a, err1 := direct.At(at).AllowN(ctx, K("42"), n)
		b, err2 := through.At(at).AllowN(ctx, K("42"), n)
		if a != b || err1 != nil || err2 != nil {
			t.Fatalf("attempt %d: %+v %v and %+v %v", i, a, err1, b, err2)
		}
	}
}

// TestCancelledContext: the memory engine never waits, so it decides anyway.
func TestCancelledContext(t *testing.T) {
	gone, cancel := context.WithCancel(ctx)
	cancel()
	d, err := mustNew(t, perUser(1, time.Minute)).Allow(gone, K("42"))
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, d.Granted, 1, "granted")
}

// TestLimiterAtUsesItsInstant: every method acts at the chosen instant.
func TestLimiterAtUsesItsInstant(t *testing.T) {
	l, first := mustNew(t, perUser(10, time.Minute)), time.UnixMicro(1_700_000_000_000_000)
	at, later, k := l.At(first), l.At(first.Add(time.Second)), K("42")
	used := func(want int64) {
		t.Helper()
		n, err := at.Count(ctx, k, "user", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, n, want, "units counted")
	}
	decide := func(d Decision, err error) {
		t.Helper()
		if !d.Allowed || err != nil || !d.At.Equal(first) {
			t.Errorf("got %v at %v, %v; want allowed at %v", d, d.At, err, first)
		}
	}
	decide(at.Allow(ctx, k))
	decide(at.AllowN(ctx, k, 2))
	decide(at.AllowOnce(ctx, k, 3, "a"))
	decide(at.AllowOnce(ctx, k, 3, "a"))
	decide(at.Record(ctx, k, 1))
	record := Call{Limiter: at, Key: k, Op: engine.Record, Request: Request{N: 1, ID: "b"}}
	decide(record.Do(ctx))
	decide(record.Do(ctx))
	decide(at.Peek(ctx, k, 1))
	used(8)
	for _, want := range []string{"took 3 units back", "took 3 units back; replayed, nothing was charged again"} {
		c := Call{Limiter: later, Key: k, Op: engine.Refund, From: first, Request: Request{N: 3, ID: "c"}}
		d, err := c.Do(ctx)
		if !d.Allowed || d.Granted != 3 || d.String() != want || err != nil {
			t.Errorf("refund once: got %v, %v; want %s", d, err, want)
		}
	}
	n, err := later.Refund(ctx, k, first, 2)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, n, 2, "refund")
	used(3)
	for name, c := range map[string]Call{
		"of another instant": {From: first.Add(time.Microsecond), Request: Request{N: 1}},
		"once more":          {From: first, Request: Request{N: 1, ID: "d"}},
	} {
		later.Refund(ctx, k, first, 3) // what is left
		c.Limiter, c.Key, c.Op = later, k, engine.Refund
		d, err := c.Do(ctx)
		const want = "took no units back: none of that instant counts; a refund needs the At of the grant's Decision"
		if err != nil || d.Granted != 0 || d.String() != want {
			t.Errorf("a refund %s: got %v, %v; want %s", name, d, err, want)
		}
	}
	if _, err := at.AllowN(ctx, k, 3); err != nil {
		t.Fatal(err)
	}
	DecideAll(ctx, []Call{{Limiter: at, Key: k, Request: Request{N: 1}}})
	if calls := []Call{{Limiter: at, Key: k, Request: Request{N: 1}}}; DecideTogether(ctx, calls) != nil || !calls[0].Decision.At.Equal(first) {
		t.Errorf("together: got %+v, want the instant %v", calls[0], first)
	}
	used(5)
	decide(later.At(first).Decide(ctx, k, Request{N: 1, At: first.Add(time.Hour)})) // the limiter's instant applies
}
