package adversary

import (
	"math/rand/v2"
	"testing"
	"time"
)

const window = 1001 * time.Microsecond // spans shorter than 1,000 microseconds

func TestSpansAreShorterThanTheWindow(t *testing.T) {
	us := int64(time.Microsecond)
	for apart, want := range map[int64]int{1000 * us: 1, 1000*us - 1: 2} {
		if got := MaxGrants([]Grant{{0, 0}, {apart, apart}}, window); got != want {
			t.Errorf("%d ns apart: MaxGrants = %d, want %d", apart, got, want)
		}
	}
}

// TestMaxGrantsAgainstCounting compares MaxGrants with its definition: for every call, count the
// grants inside the span that begins there. Instants are about the edges of a span.
func TestMaxGrantsAgainstCounting(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		near := func(n int64) int64 { return max(0, r.Int64N(n)*100_000+r.Int64N(3)-1) }
		grants := make([]Grant, r.IntN(40))
		for i := range grants {
			call := near(40)
			grants[i] = Grant{call, call + near(1+r.Int64N(12))}
		}
		want := counted(grants)
		if got := MaxGrants(grants, window); got != want {
			t.Fatalf("seed %d: MaxGrants = %d, counting gives %d", seed, got, want)
		}
		worst := Worst(grants, window)
		if len(worst) != want || counted(worst) != want {
			t.Fatalf("seed %d: Worst has %d grants, %d in one span; want %d",
				seed, len(worst), counted(worst), want)
		}
	}
}

func counted(grants []Grant) int {
	most, span := 0, int64(window-Resolution)
	for _, from := range grants {
		n := 0
		for _, g := range grants {
			if g.Call >= from.Call && g.Return-from.Call < span {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestWithin(t *testing.T) {
	grants := []Grant{{0, 1}, {5, 50}, {10, 11}}
	if got := Within(grants, 10); got != 2 {
		t.Errorf("Within(10) = %d, want 2: the grants called at 0 and 5", got)
	}
}
