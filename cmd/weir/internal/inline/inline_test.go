package inline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/enforce"
)

var start = time.Date(2026, 11, 20, 13, 7, 31, 0, time.UTC)

// newPolicies returns policies in memory without observers.
func newPolicies() *Policies { return New(weir.NewMemory(), func(_, _ *enforce.Rule) {}) }

// wantError compares the text of bad input.
func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !errors.Is(err, weir.ErrInput) || err.Error() != want {
		t.Errorf("%s:\ngot  %v\nwant %s", what, err, want)
	}
}

// TestLimitsHaveTheNamesOfGo: the only limit is called limit, and each of several by its window and
// its dimensions (R12).
func TestLimitsHaveTheNamesOfGo(t *testing.T) {
	p := newPolicies()
	for _, c := range []struct {
		name         string
		limits       []string
		want, limit0 string
		dimensions   []string
	}{
		{"push", []string{"10 per minute per user, 3s apart"}, "inline.push", "limit", []string{"user"}},
		{"push", []string{"10 messages per minute per user", "100 per 30m per tenant"}, "inline.push", "minute-user", []string{"user", "tenant"}},
		{"", []string{"10 per minute per user, 3s apart"}, "inline.10-per-minute-per-user-3s-apart", "limit", []string{"user"}},
		{"", []string{"1_000 per day, fixed in Europe/Berlin", "20 at once, for at most 30s"},
			"inline.1_000-per-day-fixed-in-europe-berlin-and-20-37cd469e31e8", "day", nil},
	} {
		r, err := p.Rule(c.name, c.limits)
		if err != nil {
			t.Errorf("%q, %q: %v", c.name, c.limits, err)
			continue
		}
		if r.Name != c.want || r.Limits[0].Name != c.limit0 || !slices.Equal(r.Dimensions(), c.dimensions) {
			t.Errorf("%q, %q: %s with the limit %s by %q, want %s, %s, %q", c.name, c.limits, r.Name, r.Limits[0].Name, r.Dimensions(), c.want, c.limit0, c.dimensions)
		}
	}
}

// TestLimitsAreCompiledOnce: the same name and limits are the same rule, and others another one.
func TestLimitsAreCompiledOnce(t *testing.T) {
	p := newPolicies()
	first, err := p.Rule("a", []string{"1 per second", "2 per minute"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Rule("a", []string{"1 per second", "2 per minute"})
	if err != nil {
		t.Fatal(err)
	}
	if again != first {
		t.Error("the same policy was compiled twice")
	}
	for _, other := range [][]string{{"b", "1 per second", "2 per minute"}, {"a", "2 per minute", "1 per second"}, {"a", "1 per second"}} {
		r, err := p.Rule(other[0], other[1:])
		if err != nil {
			t.Fatal(err)
		}
		if r == first {
			t.Errorf("%q is the rule of other limits", other)
		}
	}
	if p.Len() != 4 || len(p.Rules()) != 2 {
		t.Errorf("%d policies with %d names, want 4 with 2", p.Len(), len(p.Rules()))
	}
	if allocs := testing.AllocsPerRun(100, func() { p.Rule("a", []string{"1 per second", "2 per minute"}) }); allocs > 0 {
		t.Errorf("a policy that is known takes %v allocations", allocs)
	}
}

// TestPoliciesKeepNoStringsOfCallers: the text of a command is overwritten by the next one.
func TestPoliciesKeepNoStringsOfCallers(t *testing.T) {
	p := newPolicies()
	text := []byte("push|10 letters per minute per user")
	whole := unsafe.String(&text[0], len(text))
	r, err := p.Rule(whole[:4], []string{whole[5:]})
	if err != nil {
		t.Fatal(err)
	}
	copy(text, "xxxx|xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
	if r.Name != "inline.push" || r.Dimensions()[0] != "user" || r.Units[0] != "letters" {
		t.Errorf("the policy became %s by %q in %q", r.Name, r.Dimensions(), r.Units)
	}
	again, err := p.Rule("push", []string{"10 letters per minute per user"})
	if err != nil {
		t.Fatal(err)
	}
	if again != r {
		t.Error("the policy is not found again")
	}
}

// TestBadInput: each error has the fault, its place and the next step. The policies stay as they
// were.
func TestBadInput(t *testing.T) {
	p := newPolicies()
	const sameNames = "; an inline policy names each of several limits by its window and its dimensions, and a policy file can choose other names"
	for _, c := range []struct {
		name   string
		limits []string
		want   string
	}{
		{"push", nil, `an inline policy needs 1 to 16 limits, such as "10 per minute per user"`},
		{"push", []string{"10 per minte per user"}, `limits[0]: column 8 of "10 per minte per user": "minte" is not a window; use second, minute, hour, `},
		{"push", []string{"1 per second", "10 per minute, warn 80%"}, `limits[1]: column 16 of "10 per minute, warn 80%": "warn" is no part of a limit line; leave it out, or put the policy into the file of weir serve`},
		{"push", []string{""}, `limits[0]: column 1 of "": `},
		{"push", slices.Repeat([]string{"1 per second"}, 17), "17 limits; at most 16 are decided together"},
		{"push", []string{"1 per second", "2 per second"}, `limits, limit #2: "second" is used twice, and histories belong to the name` + sameNames},
		{"Push", []string{"1 per second"}, "Push cannot name an inline policy: a name has 1 to 57 of a-z 0-9 . _ -, and begins with a letter or a digit; without a name it gets one from its limits"},
		{strings.Repeat("x", 58), []string{"1 per second"}, strings.Repeat("x", 58) + " cannot name an inline policy: "},
		{"inline.push", []string{"1 per second"}, "inline.push has inline. already, which answers put before the name of an inline policy; send push"},
	} {
		_, err := p.Rule(c.name, c.limits)
		if err == nil || !errors.Is(err, weir.ErrInput) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q, %q:\ngot  %v\nwant %s", c.name, c.limits, err, c.want)
		}
	}
	if p.Len() != 0 {
		t.Errorf("%d policies after bad input", p.Len())
	}
	_, err := (*Policies)(nil).Rule("push", []string{"1 per second"})
	wantError(t, "inline policies are off", err, errOff.Error())
}

// TestNumberOfPoliciesHasABound: a further policy is rejected until one had no call for an hour.
func TestNumberOfPoliciesHasABound(t *testing.T) {
	p := newPolicies()
	limits := []string{"1 per second"}
	for i := range Max {
		if _, err := p.rule(fmt.Sprint("p", i), limits, start); err != nil {
			t.Fatal(err)
		}
	}
	const want = "no room for another inline policy: there are 1000, the most, each called within the last hour; " +
		"write values such as users into the key, not into the name or the limits, or move policies to the file"
	later := start.Add(idle - time.Second)
	_, err := p.rule("late", limits, later)
	wantError(t, "one too many", err, want)
	if _, err := p.rule("p7", limits, later); err != nil { // those that are there go on
		t.Fatal(err)
	}
	if _, err := p.rule("late", limits, start.Add(idle)); err != nil {
		t.Fatal(err)
	}
	if p.Len() != 2 {
		t.Errorf("%d policies are left, want p7 and late", p.Len())
	}
}

// TestPoliciesOfANameShareCounters: a policy continues the counters of the newest one of its name.
func TestPoliciesOfANameShareCounters(t *testing.T) {
	var got []string
	p := New(weir.NewMemory(), func(next, before *enforce.Rule) {
		was := "none"
		if before != nil {
			was = before.Sentence(0)
		}
		got = append(got, next.Sentence(0)+" after "+was)
	})
	for _, line := range []string{"1 per second", "2 per second", "3 per second"} {
		if _, err := p.Rule("a", []string{line}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"1 per second after none", "2 per second after 1 per second", "3 per second after 2 per second"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if rules := p.Rules(); len(rules) != 1 || rules[0].Limits[0].Max != 3 {
		t.Errorf("the newest are %v", rules)
	}
}

// TestConcurrentCalls: callers at the same time get one rule.
func TestConcurrentCalls(t *testing.T) {
	p := newPolicies()
	var rules sync.Map
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				r, err := p.Rule(fmt.Sprint("p", i%10), []string{"1 per second"})
				if err != nil {
					t.Error(err)
					return
				}
				if first, _ := rules.LoadOrStore(r.Name, r); first != r {
					t.Errorf("%s has two rules", r.Name)
				}
			}
		})
	}
	all.Wait()
	if p.Len() != 10 {
		t.Errorf("%d policies, want 10", p.Len())
	}
}
