package weir

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var _ Decider = (*Limiter)(nil)

// twoDimensions counts by tenant and user; K has the tenant first.
var twoDimensions = Policy{
	Name:       "api",
	Dimensions: []string{"tenant", "user"},
	Limits:     []Limit{PerMinute(2, "user", "tenant"), PerHour(9, "tenant")},
}

// TestDecideForIsDecide: named values decide as their key does, and the outcome has the rules,
// the key, the units and the states.
func TestDecideForIsDecide(t *testing.T) {
	l := mustNew(t, twoDimensions)
	at := time.UnixMicro(1_700_000_000_000_000)
	values := map[string]string{"user": "ann", "tenant": "acme"}
	o, err := l.DecideFor(ctx, values, Request{N: 2, At: at, ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if !o.Allowed || o.Key.Value(0)+o.Key.Value(1) != "acmeann" || o.Rules != l.Compiled() || o.N != 2 || !o.At.Equal(at) {
		t.Errorf("got %+v", o)
	}
	if len(o.States) != 2 || o.States[0].Used != 2 || o.States[1].Remaining != 7 {
		t.Errorf("states %+v; want 2 used of the first, 7 left of the second", o.States)
	}
	again, err := l.DecideFor(ctx, values, Request{N: 2, At: at, ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, again.Replayed, true, "the same id again is replayed")
	denied, err := l.DecideFor(ctx, values, Request{N: 1, At: at})
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, denied.Limit, "minute-tenant-user", "the limit that denied")
}

// TestReserveForHolds: a reservation of named values holds until it is settled.
func TestReserveForHolds(t *testing.T) {
	l := mustNew(t, Policy{Name: "jobs", Limits: []Limit{AtOnce(1, time.Minute, "user")}})
	ann := map[string]string{"user": "ann"}
	held, o, err := l.ReserveFor(ctx, ann, Request{N: 1})
	if err != nil || held == nil || o.States[0].Used != 1 {
		t.Fatalf("got %v, %+v, %v; want a hold", held, o, err)
	}
	second, denied, err := l.ReserveFor(ctx, ann, Request{N: 1})
	if err != nil || second != nil || denied.Allowed || denied.Rules != l.Compiled() {
		t.Errorf("got %v, %+v, %v; want a denial", second, denied, err)
	}
	must.Do(t, held.Done(ctx))
	if third, _, err := l.ReserveFor(ctx, ann, Request{N: 1}); err != nil || third == nil {
		t.Errorf("got %v, %v; want a hold after Done", third, err)
	}
}

// TestDeciderBadInput: bad input of named values is an error that names the mistake, and charges
// nothing.
func TestDeciderBadInput(t *testing.T) {
	m := NewMemory()
	l := mustNew(t, twoDimensions, WithEngine(m))
	both := map[string]string{"user": "ann", "tenant": "acme"}
	decide := func(l *Limiter, values map[string]string, r Request) error {
		_, err := l.DecideFor(ctx, values, r)
		_, _, reserved := l.ReserveFor(ctx, values, r)
		if (err == nil) != (reserved == nil) {
			t.Errorf("%v %+v: DecideFor %v, ReserveFor %v", values, r, err, reserved)
		}
		return err
	}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"a missing value": {decide(l, map[string]string{"user": "ann"}, Request{N: 1}), `needs a value for "tenant"`},
		"an unknown name": {decide(l, map[string]string{"user": "a", "tenant": "t", "ip": "i"}, Request{N: 1}), `no dimension "ip"`},
		"an empty value":  {decide(l, map[string]string{"user": "", "tenant": "t"}, Request{N: 1}), `"user" is empty`},
		"0 units":         {decide(l, both, Request{}), "Peek"},
		"own states":      {decide(l, both, Request{N: 1, States: make([]LimitState, 2)}), "those of the Outcome"},
		"a nil limiter":   {decide(nil, both, Request{N: 1}), "weir.New"},
		"a zero limiter":  {decide(new(Limiter), both, Request{N: 1}), "weir.New"},
		"names missing":   {l.CheckNames([]string{"user"}), `needs a value for "tenant"`},
		"names unknown":   {l.CheckNames([]string{"user", "tenant", "ip"}), `no dimension "ip"`},
		"names twice":     {l.CheckNames([]string{"user", "tenant", "user"}), "twice"},
		"names of nil":    {(*Limiter)(nil).CheckNames(nil), "weir.New"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: got %v, want …%s…", name, c.err, c.says)
		}
	}
	if _, err := l.DecideFor(ctx, both, Request{N: 1, TTL: time.Second}); !errors.Is(err, ErrInput) {
		t.Errorf("a TTL: got %v, want bad input", err)
	}
	must.Do(t, l.CheckNames([]string{"user", "tenant"}))
	assert.Equal(t, m.Stats().Keys, 0, "histories after bad input")
}
