package enforce

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirtest"
)

// rulesOf returns the rules of a file on an engine.
func rulesOf(t testing.TB, source string, e engine.Engine) []*Rule {
	t.Helper()
	f, err := policy.Parse("weir.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	s := Set{Engine: e}
	must.Do(t, s.Reload(f, nil))
	return s.Version().Rules
}

// named returns the rule of that name.
func named(rules []*Rule, name string) *Rule {
	return rules[slices.IndexFunc(rules, func(r *Rule) bool { return r.Name == name })]
}

// ruleIn returns a rule of a policy file of the traces.
func ruleIn(t testing.TB, file, name string, e engine.Engine) *Rule {
	t.Helper()
	return named(rulesOf(t, traceFile(t, file), e), name)
}

// pairsOf returns the pairs of name=value words.
func pairsOf(words string) (pairs []Pair) {
	for _, w := range strings.Fields(words) {
		name, value, _ := strings.Cut(w, "=")
		pairs = append(pairs, Pair{Name: name, Value: value})
	}
	return pairs
}

func at(s string) time.Time {
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return d
}

// TestVersion: a reload makes a new version, unless it is not accepted.
func TestVersion(t *testing.T) {
	f, err := policy.Parse("weir.yaml", []byte(traceFile(t, "policies.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	s, refuse := Set{Engine: weir.NewMemory()}, errors.New("refused")
	for i, accept := range []error{nil, nil, refuse} {
		err := s.Reload(f, func(next, now *Version) error {
			if now.Generation != int64(i) || next.Generation != int64(i)+1 {
				t.Errorf("reload %d: generation %d after %d", i, next.Generation, now.Generation)
			}
			return accept
		})
		if err != accept {
			t.Errorf("reload %d: %v, want %v", i, err, accept)
		}
	}
	v := s.Version()
	for i, want := range []string{"api", "plans", "shadow", "login"} {
		if v.Rules[i].Name != want {
			t.Errorf("policy %d is %q, want %q", i, v.Rules[i].Name, want)
		}
	}
	if v.Generation != 2 || v.Limits != 5 || v.File != f || v.Since.IsZero() {
		t.Errorf("generation %d of %s with %d limits since %v", v.Generation, v.File.Name, v.Limits, v.Since)
	}
}

// TestDefinitionsMadeInGo: parts that no policy file can have are a PolicyError that names them.
func TestDefinitionsMadeInGo(t *testing.T) {
	one := func(limit int) []policy.Change { return []policy.Change{{Limit: limit, Max: 1}} }
	override := func(o policy.Override) func(*policy.Definition) {
		return func(p *policy.Definition) { p.Overrides = []policy.Override{{}, o} }
	}
	for want, change := range map[string]func(*policy.Definition){
		`Plans: "pro" changes limit 1; the policy has 1`:                      func(p *policy.Definition) { p.Plans = []policy.Plan{{Name: "pro", Changes: one(1)}} },
		"Overrides: 1 changes limit -1; the policy has 1":                     override(policy.Override{Changes: one(-1)}),
		`Overrides: 1 names the plan "pro", which is not there`:               override(policy.Override{Plan: "pro"}),
		`Overrides: 1 is for "ip"; the policy counts by ["user"]`:             override(policy.Override{For: []policy.Dimension{{Name: "ip"}}}),
		`Overrides: 1 is for an empty "user", which no key has`:               override(policy.Override{For: []policy.Dimension{{Name: "user"}}}),
		`Addresses: the policy does not count by "ip"; it counts by ["user"]`: func(p *policy.Definition) { p.Addresses = map[string]int{"ip": 64} },
		`Addresses: "user" has prefixes of 0 bits; use 32 to 128`:             func(p *policy.Definition) { p.Addresses = map[string]int{"user": 0} },
		`Addresses: PlanBy is "user"`: func(p *policy.Definition) {
			p.Addresses, p.PlanBy = map[string]int{"user": 64}, "user"
		},
		`Overrides: 0 is for user "x", which is not an address`: func(p *policy.Definition) {
			p.Addresses = map[string]int{"user": 64}
			p.Overrides = []policy.Override{{For: []policy.Dimension{{Name: "user", Value: "x"}}}}
		},
	} {
		p := &policy.Definition{Name: "p", Limits: []weir.Limit{weir.PerHour(1, "user")}}
		p.Limits[0].Name = "l"
		s := Set{Engine: weir.NewMemory()}
		must.Do(t, s.Reload(&policy.File{Policies: []*policy.Definition{p}}, nil))
		wrong := *p
		change(&wrong)
		var e *weir.PolicyError
		err := s.Reload(&policy.File{Policies: []*policy.Definition{&wrong}}, nil)
		if !errors.As(err, &e) || e.Policy != "p" || !strings.Contains(err.Error(), want) || s.Version().Generation != 1 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s := Set{Engine: weir.NewMemory()}
	if err := s.Reload(&policy.File{Policies: []*policy.Definition{nil}}, nil); !errors.As(err, new(*weir.PolicyError)) {
		t.Errorf("a nil Definition: %v", err)
	}
}

func TestBadSubjects(t *testing.T) {
	r := ruleIn(t, "policies.yaml", "api", weir.NewMemory())
	for words, want := range map[string]string{
		"tenant=a":                  `needs a value for "user"`,
		"tenant=a plan=pro":         `needs a value for "user"`,
		"tenant=a user=u x=y":       `has no dimension "x"`,
		"tenant= user=u":            `the value of "tenant" is empty`,
		"tenant=a user= plan=pro":   `the value of "user" is empty`,
		"tenant=a user=u plan=p x=": `has no dimension "x"`,
		"tenant=a user=u plan=" + strings.Repeat("x", 1025): "1025 bytes long",
	} {
		whose, err := r.Target(pairsOf(words))
		if !errors.Is(err, &weir.InputError{Field: "key"}) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %+v, %v; want an error that holds %s", words, whose, err, want)
		}
	}
}

// TestBadResets: a reset that fits no limit is an error that gives the names which exist, and
// changes nothing.
func TestBadResets(t *testing.T) {
	r := ruleIn(t, "policies.yaml", "api", weir.NewMemory())
	apart := ruleIn(t, "blocks.yaml", "login", weir.NewMemory())
	for _, c := range []struct {
		rule   *Rule
		words  string
		limits []string
		want   error
		says   string
	}{
		{r, "tennant=a user=u", nil, &weir.InputError{Field: "key"}, `no dimension "tennant"; it counts by ["tenant" "user"]`},
		{r, "tennant=a", []string{"tokens"}, &weir.InputError{Field: "key"}, `no dimension "tennant"; it counts by ["tenant" "user"]`},
		{r, "tenant=a", nil, &weir.InputError{Field: "key"}, `needs a value for "user"; it counts by ["tenant" "user"]; or name limits that count by fewer values: ["tokens"]`},
		{r, "tenant=a", []string{"token"}, &weir.InputError{Field: "limit"}, `no limit "token"; use one of ["requests" "tokens"]`},
		{r, "tenant=a", []string{""}, &weir.InputError{Field: "limit"}, `no limit ""; use one of`},
		{r, "user=u", []string{"tokens"}, &weir.InputError{Field: "key"}, `the limits ["tokens"] need a value for "tenant"`},
		{r, "tenant=", []string{"tokens"}, &weir.InputError{Field: "key"}, `the value of "tenant" is empty`},
		{apart, "ip=x account=a", nil, &weir.InputError{Field: "limit"}, `name one or more of ["account" "ip"]`},
		{apart, "ip=x", nil, &weir.InputError{Field: "limit"}, `name one or more of ["account" "ip"]`},
	} {
		_, err := c.rule.ResetTarget(pairsOf(c.words), c.limits)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: %v; want %v that holds %s", c.words, c.limits, err, c.want, c.says)
		}
	}
}

var errDown = errors.New("the store is out")

// down is an engine that always fails.
var down = &failing{weir.NewMemory(), func() bool { return true }}

// TestShadow: a shadow counts, allows everything and reports its decision. An outage
// stops no caller, and bad input is an error.
func TestShadow(t *testing.T) {
	r := ruleIn(t, "policies.yaml", "shadow", weir.NewMemory())
	ask := Request{Target: Target{Key: weir.K("u")}, N: 1, At: at("2026-01-01")}
	for i, would := range []bool{true, false, false} {
		o, err := r.Decide(context.Background(), &ask)
		if d := o.Decision; err != nil || !d.Allowed || d.Granted != 1 || d.RetryAfter != 0 || d.Limit != "" ||
			!o.Applied.Shadow || o.Applied.Would.Allowed != would || d.Remaining != 0 {
			t.Errorf("attempt %d: %+v, %v; want it to pass and would=%v", i, o, err, would)
		}
	}
	ask.N = -1
	if o, err := r.Decide(context.Background(), &ask); !errors.Is(err, &weir.InputError{Field: "units"}) {
		t.Errorf("-1 units: %+v, %v", o, err)
	}
	r, ask.N = ruleIn(t, "policies.yaml", "shadow", down), 2
	if o, err := r.Decide(context.Background(), &ask); err != nil || !errors.Is(o.Err, errDown) || !o.Decision.Allowed || o.Decision.Granted != 2 || !o.Decision.Degraded {
		t.Errorf("a store that is away: %+v, %v", o, err)
	}
	ask.Op = engine.Record
	if _, err := r.Decide(context.Background(), &ask); !errors.Is(err, errDown) {
		t.Errorf("a record that was lost: %v, want an error", err)
	}
}

// TestConcurrently: concurrent first uses of a variation share one history.
func TestConcurrently(t *testing.T) {
	r := ruleIn(t, "policies.yaml", "api", weir.NewMemory())
	var wg sync.WaitGroup
	var granted atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				whose := Target{Key: weir.K("acme", "ann"), Plan: i % 3}
				o, err := r.Decide(context.Background(), &Request{Target: whose, N: 1, At: at("2027-01-01")})
				if err != nil {
					t.Error(err)
				}
				granted.Add(o.Decision.Granted)
			}
		})
	}
	wg.Wait()
	if n := granted.Load(); n != 2 {
		t.Errorf("%d granted by one history under an override of 2", n)
	}
}

// TestAllocations: choosing a variation allocates nothing.
func TestAllocations(t *testing.T) {
	r := ruleIn(t, "policies.yaml", "api", weir.NewMemory())
	ctx, ask := context.Background(), Request{Target: Target{Key: weir.K("acme", "u")}, N: 0, At: at("2026-07-01")}
	r.Decide(ctx, &ask)
	if n := testing.AllocsPerRun(100, func() { r.Decide(ctx, &ask) }); n != 0 {
		t.Errorf("%v allocations by an override, want 0", n)
	}
}

// nowSource has a policy for each way through this package.
const nowSource = `version: 1
policies:
  plain: {limit: "1 per 100ms per user"}
  shadow: {limit: "1 per 100ms per user", shadow: true}
  reported: {limit: "1 per 100ms per user", count: reported}
  blocks: {limit: "1 per 100ms per user, then block 1s"}
  warns: {limit: "1 per 100ms per user", warn: 50%}
  open: {limit: "1 per 100ms per user", when-store-is-down: allow}
`

// TestRequestsWithoutAnInstant: the zero At is now, in every form and policy, with the store
// and without it.
func TestRequestsWithoutAnInstant(t *testing.T) {
	memory, ctx := weir.NewMemory(), context.Background()
	store := weirtest.NewFaulty(memory)
	rules := rulesOf(t, nowSource, fallback.New(store, fallback.Deny))
	forms := map[string]func(rule *Rule, user string) (Outcome, error){
		"Rule.Decide": func(rule *Rule, user string) (Outcome, error) {
			return rule.Decide(ctx, &Request{Target: Target{Key: weir.K(user)}, N: 1})
		},
		"DecideAll": func(rule *Rule, user string) (Outcome, error) {
			items := []Item{{Rule: rule, Request: Request{Target: Target{Key: weir.K(user)}, N: 1}}}
			DecideAll(ctx, items)
			return items[0].Outcome, items[0].Err
		},
		"DecideTogether": func(rule *Rule, user string) (Outcome, error) {
			items := []Item{{Rule: rule, Request: Request{Target: Target{Key: weir.K(user)}, N: 1}}}
			err := DecideTogether(ctx, items)
			return items[0].Outcome, err
		},
	}
	decides := func(form string, rule *Rule) {
		t.Helper()
		before := clockOf(memory)
		o, err := forms[form](rule, form)
		// The clock of an outage is the process's, which may differ from that of memory.
		slack := time.Duration(0)
		if o.Degraded {
			slack = time.Minute
		}
		if d := time.UnixMicro(before).Sub(o.At); err != nil || !o.Allowed || d > slack || time.UnixMicro(clockOf(memory)).Before(o.At.Add(-slack)) {
			t.Errorf("%s of %s: %v at %v, %v; want a grant at %v", form, rule.Name, o.Decision, o.At, err, time.UnixMicro(before))
		}
	}
	for form := range forms {
		for _, r := range rules {
			if (r.Name == "blocks" || r.Name == "reported") && form == "DecideTogether" {
				continue // rejected
			}
			decides(form, r)
		}
	}
	store.Break(weirtest.Down())
	for form := range forms {
		decides(form, named(rules, "open"))
	}
	if _, err := named(rules, "shadow").Decide(ctx, &Request{Target: Target{Key: weir.K("u")}, N: 1, At: time.UnixMicro(-1)}); !errors.Is(err, weir.ErrInput) {
		t.Errorf("a shadow, before 1970: %v, want bad input", err)
	}
}

// TestGivenInstantIsWholeMicroseconds: without the store a shadow decides at the instant as
// an engine returns it (R1), not at that of the caller with its nanoseconds and its zone.
func TestGivenInstantIsWholeMicroseconds(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	shadow := named(rulesOf(t, nowSource, fallback.New(store, fallback.Deny)), "shadow")
	given := time.Date(2026, 11, 20, 9, 0, 0, 1_999, time.FixedZone("east", 3600))
	decide := func() weir.Decision {
		t.Helper()
		o := mustDecide(t, shadow, &Request{Target: Target{Key: weir.K("u")}, N: 1, At: given})
		return o.Decision
	}
	want := decide()
	store.Break(weirtest.Down())
	if got := decide(); !got.Degraded || got.At != want.At {
		t.Errorf("%v: without the store at %v, with it at %v", given, got.At, want.At)
	}
}

// clockOf reads the clock of an engine, in microseconds since 1970.
func clockOf(e engine.Engine) int64 {
	rules, err := weir.Policy{Name: "clock", Limits: []weir.Limit{weir.PerSecond(1)}}.Compile()
	if err != nil {
		panic(err)
	}
	c := engine.Call{Rules: rules, Op: engine.Peek}
	decideCall(e, &c)
	return c.Result.At.UnixMicro()
}

// silent is an engine that decides, and does not show what it stores.
type silent struct{ engine.Engine }

func (s silent) Do(ctx context.Context, calls []engine.Call) {
	for i := range calls {
		calls[i].Histories = nil
	}
	s.Engine.Do(ctx, calls)
}

// TestInspectNeedsHistories: an engine that does not show what it stores is an error, not a key
// without entries.
func TestInspectNeedsHistories(t *testing.T) {
	p := &policy.Definition{Name: "p", Limits: []weir.Limit{weir.PerHour(2).Named("l")}}
	for _, e := range []engine.Engine{weir.NewMemory(), silent{weir.NewMemory()}} {
		rule, err := NewRule(p, e)
		if err != nil {
			t.Fatal(err)
		}
		_, histories, err := rule.Inspect(context.Background(), &Request{N: 1})
		if _, shows := e.(*weir.Memory); shows && (len(histories) != 1 || err != nil) {
			t.Errorf("got %v, %v; want a history", histories, err)
		} else if !shows && (histories != nil || !errors.Is(err, engine.ErrInput)) {
			t.Errorf("got %v, %v; want an error", histories, err)
		}
	}
}
