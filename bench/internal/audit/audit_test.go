package audit

import (
	"math/rand/v2"
	"testing"
	"time"
)

const window = 1001 * time.Microsecond // spans shorter than 1,000 microseconds

func TestMaxGrants(t *testing.T) {
	us := int64(time.Microsecond)
	for _, tc := range []struct {
		name   string
		grants []Grant
		want   int
	}{
		{"nothing granted", nil, 0},
		{"one", []Grant{{0, 5}}, 1},
		{"a full span apart", []Grant{{0, 0}, {1000 * us, 1000 * us}}, 1},
		{"a nanosecond less", []Grant{{0, 0}, {1000*us - 1, 1000*us - 1}}, 2},
		{"called in time, returned too late", []Grant{{0, 0}, {900 * us, 1000 * us}}, 1},
		{"called too early, returned in time", []Grant{{0, 300 * us}, {250 * us, 260 * us}, {1100 * us, 1200 * us}}, 2},
		{"slower than the span is in none", []Grant{{0, 1000 * us}, {10 * us, 20 * us}}, 1},
		{"equal calls are all counted", []Grant{{7, 9}, {7, 8}, {7, 30}}, 3},
		{"two bursts around an edge", burst(20, 940*us, 20, 1010*us), 40},
	} {
		if got := MaxGrants(tc.grants, window); got != tc.want {
			t.Errorf("%s: MaxGrants = %d, want %d", tc.name, got, tc.want)
		}
	}
}

// burst returns n grants from instant a and m from instant b, 10 ns each.
func burst(n int, a int64, m int, b int64) []Grant {
	var g []Grant
	for i := range int64(n) {
		g = append(g, Grant{a + 10*i, a + 10*i + 10})
	}
	for i := range int64(m) {
		g = append(g, Grant{b + 10*i, b + 10*i + 10})
	}
	return g
}

// TestMaxGrantsAgainstCounting compares MaxGrants with its definition: for every call, count the
// grants inside the span that begins there.
func TestMaxGrantsAgainstCounting(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		grants := make([]Grant, r.IntN(40))
		for i := range grants {
			call := r.Int64N(4_000_000)
			grants[i] = Grant{call, call + r.Int64N(1+r.Int64N(1_200_000))}
		}
		want := counted(grants)
		if got := MaxGrants(grants, window); got != want {
			t.Fatalf("seed %d: MaxGrants = %d, counting gives %d", seed, got, want)
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
