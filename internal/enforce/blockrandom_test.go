package enforce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/policy"
)

// randomBlocking is a file with one policy that blocks, of every word that may stand
// beside a block.
func randomBlocking(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	costs := ""
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n  p:\n    limits:\n")
	names := []string{"first", "second"}[:1+r.IntN(2)]
	for i, name := range names {
		fmt.Fprintf(&b, "      %s: \"%d per %dms%s%s%s\"\n", name, r.IntN(5), 3+r.IntN(8),
			pick("", " per user", " per user per tenant"), pick("", ", 2ms apart"),
			[]string{", then block " + pick("1ms", "4ms", "20ms", "50ms"), pick("", ", then block 7ms")}[i])
		if r.IntN(4) == 0 {
			costs += fmt.Sprintf("%s: %d,", name, 1+r.IntN(3))
		}
	}
	mode := pick("", "", "denied: counted", "batch: partial", "count: reported")
	if costs != "" && mode != "batch: partial" {
		fmt.Fprintf(&b, "    costs: {%s}\n", strings.TrimSuffix(costs, ","))
	}
	if mode != "" {
		fmt.Fprintf(&b, "    %s\n", mode)
	}
	b.WriteString(pick("", "    cells: 3\n") + pick("", "", "    shadow: true\n"))
	if mode != "denied: counted" && r.IntN(2) == 0 {
		fmt.Fprintf(&b, "    plan-by: plan\n    plans: {pro: {first: %d per %s}}\n", r.IntN(7), "WINDOW")
	}
	return b.String()
}

// traced is a request with its outcome.
type traced struct {
	ask  Request
	made Outcome
}

// would returns the decision, enforced or not.
func would(o *Outcome) weir.Decision {
	if o.Applied.Shadow {
		return o.Applied.Would
	}
	return o.Decision
}

// TestBlockRandomly: beside every word of the file, the wait is exact (R8), a denial is
// charged nothing (R4), and a block lasts its full length from the denial that began it.
func TestBlockRandomly(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 7))
		src := randomBlocking(r)
		if i := strings.Index(src, "WINDOW"); i >= 0 {
			window := strings.Fields(strings.SplitN(src, " per ", 2)[1])[0]
			src = strings.ReplaceAll(src, "WINDOW", strings.Trim(window, `",`))
		}
		f, err := policy.Parse("weir.yaml", []byte(src))
		if err != nil {
			if strings.Contains(err.Error(), "apart") {
				continue // more apart than the window is long
			}
			t.Fatalf("seed %d: %v\n%s", seed, err, src)
		}
		p := f.Policies[0]
		run := func(steps []traced) *Rule {
			rule, err := NewRule(p, weir.NewMemory())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				mustDecide(t, rule, &s.ask)
			}
			return rule
		}
		rule := run(nil)
		var steps []traced
		now := start
		for range 30 {
			now = now.Add(time.Duration(r.IntN(4)*r.IntN(1500)) * time.Microsecond)
			values := make([]string, len(rule.Dimensions()))
			for i := range values {
				values[i] = string(rune('a' + r.IntN(2)))
			}
			a := Request{Target: Target{Key: weir.K(values...), Plan: r.IntN(len(p.Plans) + 1)}, Op: []engine.Op{check, check, check, peek, record}[r.IntN(5)],
				N: int64(r.IntN(4)), At: now}
			o := mustDecide(t, rule, &a)
			steps = append(steps, traced{a, o})
			fail := func(format string, args ...any) {
				t.Helper()
				var trace strings.Builder
				for _, s := range steps {
					fmt.Fprintf(&trace, "  %v at %v of %d for %v: %s\n", s.ask.Op, s.ask.At.Sub(start), s.ask.N, s.ask.Key, brief(&s.made))
				}
				t.Fatalf("seed %d: %s\n%s%s", seed, fmt.Sprintf(format, args...), src, trace.String())
			}
			d := would(&o)
			if d.Allowed && d.Granted == a.N || d.RetryAfter == weir.Never || a.Op == record {
				continue
			}
			if d.RetryAfter == 0 && !d.Allowed {
				fail("denied without a wait")
			}
			for _, sooner := range []time.Duration{0, time.Microsecond} {
				again := a
				again.At = d.At.Add(d.RetryAfter - sooner)
				after := mustDecide(t, run(steps), &again)
				got := would(&after)
				if full := got.Allowed && got.Granted == a.N; full != (sooner == 0) {
					fail("%v before the wait of %v is over: %s", sooner, d.RetryAfter, brief(&after))
				}
			}
			if until := o.Applied.Blocked; !until.IsZero() {
				for _, other := range steps[:len(steps)-1] {
					if b := other.made.Applied.Blocked; fmt.Sprint(other.ask.Key) == fmt.Sprint(a.Key) && b.After(d.At) && b.After(until) {
						fail("blocked until %v after it was until %v", until, b)
					}
				}
			}
			// A denial is charged nothing, unless denials count and no block denied it.
			if p.Mode == weir.CountDenied || d.Granted > 0 || a.Op != check {
				continue
			}
			for i := range p.Limits {
				count := func(steps []traced) int64 {
					l := run(steps).Limiter(&a.Target, a.At)
					n, err := l.At(d.At).Count(context.Background(), a.Key, p.Limits[i].Name, p.Limits[i].Window)
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				if before, after := count(steps[:len(steps)-1]), count(steps); before != after {
					fail("a denial was charged %d in %s", after-before, p.Limits[i].Name)
				}
			}
		}
	}
}
