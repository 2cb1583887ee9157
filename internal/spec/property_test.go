package spec

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// randomLimits are small and awkward: few units, odd microseconds, coarse cells.
func randomLimits(r *rand.Rand) []weir.Limit {
	var limits []weir.Limit
	for i := range 1 + r.IntN(3) {
		window := time.Millisecond + time.Duration(r.IntN(3000))*us
		limit := weir.Limit{Name: fmt.Sprintf("l%d", i), Max: int64(r.IntN(6)), Window: window}
		if r.IntN(3) == 0 {
			limit.MinInterval = time.Duration(r.Int64N(int64(window/us)+1)) * us
		}
		if r.IntN(3) == 0 {
			limit.Cells = 1 + r.IntN(5)
		}
		limits = append(limits, limit)
	}
	return limits
}

// TestWaitIsTight: one microsecond before the announced wait is over the attempt is
// denied, and at its end it is granted in full (R8).
func TestWaitIsTight(t *testing.T) {
	checked := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := newTrace(t, weir.Mode(r.IntN(3)), randomLimits(r)...)
		at := time.Duration(0)
		for range 60 {
			n := r.Int64N(5)
			op := []weir.Op{weir.OpAttempt, weir.OpAttempt, weir.OpRecord, weir.OpPeek}[r.IntN(4)]
			d := tr.decide(op, at, n)
			if d.RetryAfter != weir.Never {
				checked++
				tr.tight(seed, at, n, d.RetryAfter)
				at += []time.Duration{0, us, d.RetryAfter, d.RetryAfter + us, d.ResetAfter}[r.IntN(5)]
			}
			at += time.Duration(r.IntN(400)) * us
		}
	}
	t.Logf("%d waits exact to a microsecond on both sides", checked)
	if checked < 10_000 {
		t.Errorf("only %d waits were checked; the histories are too tame", checked)
	}
}

func (tr *trace) tight(seed uint64, at time.Duration, n int64, wait time.Duration) {
	tr.t.Helper()
	full := func(d engine.Result) bool { return d.Allowed && d.Granted == n }
	if !full(tr.decide(weir.OpPeek, at+wait, n)) {
		tr.t.Errorf("seed %d @%v: %d after a wait of %v: got denied, want granted in full", seed, at, n, wait)
	}
	if wait > 0 && full(tr.decide(weir.OpPeek, at+wait-us, n)) {
		tr.t.Errorf("seed %d @%v: %d a microsecond before the wait of %v: got granted, want denied", seed, at, n, wait)
	}
}

// TestNoWindowAboveMax looks at every window that begins with a grant, of every
// limit, and at every two neighbouring grants (the promise, R3, R5, R7, R9).
func TestNoWindowAboveMax(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		limits := randomLimits(r)
		tr := newTrace(t, weir.Mode(r.IntN(3)), limits...)
		at := time.Duration(0)
		var grants []entry
		for range 120 {
			d := tr.decide(weir.OpAttempt, at, r.Int64N(4))
			if d.Granted > 0 {
				grants = append(grants, entry{d.At.UnixMicro(), d.Granted})
			}
			if d.RetryAfter != weir.Never && r.IntN(2) == 0 {
				at += d.RetryAfter
			}
			at += time.Duration(r.IntN(3)*r.IntN(300)) * us
		}
		for _, limit := range limits {
			auditWindows(t, seed, limit, grants)
		}
	}
}

func auditWindows(t *testing.T, seed uint64, limit weir.Limit, grants []entry) {
	t.Helper()
	for i, first := range grants {
		sum := int64(0)
		for _, g := range grants[i:] {
			if g.u < first.u+limit.Window.Microseconds() {
				sum += g.units
			}
		}
		if sum > limit.Max {
			t.Errorf("seed %d: window of %v from %d holds %d, want at most %d", seed, limit.Window, first.u, sum, limit.Max)
		}
		if i > 0 && first.u-grants[i-1].u < limit.MinInterval.Microseconds() {
			t.Errorf("seed %d: grants at %d and %d, want at least %v apart", seed, grants[i-1].u, first.u, limit.MinInterval)
		}
	}
}

// TestBucketSpans looks at every span between two grants of a bucket, and tries every wait
// on both sides (the promise, R8, R16).
func TestBucketSpans(t *testing.T) {
	checked := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		limit := weir.Limit{Name: "a", Kind: weir.Bucket, Max: 1 + r.Int64N(9), Burst: 1 + r.Int64N(9),
			Window: time.Millisecond + time.Duration(r.IntN(3000))*us}
		if r.IntN(3) == 0 {
			limit.MinInterval = time.Duration(r.IntN(300)) * us
		}
		tr := newTrace(t, weir.Mode(r.IntN(3)), limit)
		at := time.Duration(0)
		var grants []entry
		for range 80 {
			n := r.Int64N(4)
			d := tr.decide(weir.OpAttempt, at, n)
			if d.Granted > 0 {
				grants = append(grants, entry{d.At.UnixMicro(), d.Granted})
			}
			if d.RetryAfter != weir.Never {
				checked++
				tr.tight(seed, at, n, d.RetryAfter)
				at += []time.Duration{0, us, d.RetryAfter, d.RetryAfter, d.ResetAfter}[r.IntN(5)]
			}
			at += time.Duration(r.IntN(2)*r.IntN(400)) * us
		}
		auditSpans(t, seed, limit, grants)
	}
	if checked < 10_000 {
		t.Errorf("only %d waits were checked; the histories are too tame", checked)
	}
}

// auditSpans compares the units of every span with Burst + floor(d * Max / Window).
func auditSpans(t *testing.T, seed uint64, limit weir.Limit, grants []entry) {
	t.Helper()
	for i, first := range grants {
		sum := int64(0)
		for _, last := range grants[i:] {
			sum += last.units
			d := last.u - first.u
			if most := limit.Burst + d*limit.Max/limit.Window.Microseconds(); sum > most {
				t.Errorf("seed %d: %d µs from %d hold %d, want at most %d", seed, d, first.u, sum, most)
			}
		}
	}
}
