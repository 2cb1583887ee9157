package weir

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// TestLimiterAtHasTheSignaturesOfLimiter: every method of LimiterAt exists on Limiter with
// the same arguments and results.
func TestLimiterAtHasTheSignaturesOfLimiter(t *testing.T) {
	at, limiter := reflect.TypeFor[LimiterAt](), reflect.TypeFor[*Limiter]()
	if at.NumMethod() != 10 {
		t.Errorf("LimiterAt has %d methods, want 10", at.NumMethod())
	}
	zero := reflect.Zero(limiter)
	for i := range at.NumMethod() {
		m := at.Method(i)
		other := zero.MethodByName(m.Name)
		if !other.IsValid() {
			t.Errorf("Limiter has no method %s", m.Name)
			continue
		}
		if got, want := reflect.Zero(at).Method(i).Type(), other.Type(); got != want {
			t.Errorf("LimiterAt.%s is %v, Limiter's is %v", m.Name, got, want)
		}
	}
}

// TestLimiterAtUsesItsInstant: every method acts at the chosen instant.
func TestLimiterAtUsesItsInstant(t *testing.T) {
	l, first := mustNew(t, perUser(10, time.Minute)), time.UnixMicro(1_700_000_000_000_000)
	at, later, k := l.At(first), l.At(first.Add(time.Second)), K("42")
	used := func(want int64) {
		t.Helper()
		if n, err := at.Count(ctx, k, "user", time.Minute); n != want || err != nil {
			t.Errorf("got %d units counted, %v; want %d", n, err, want)
		}
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
	decide(at.RecordOnce(ctx, k, 1, "b"))
	decide(at.RecordOnce(ctx, k, 1, "b"))
	decide(at.Peek(ctx, k, 1))
	used(8)
	for range 2 {
		if n, err := later.RefundOnce(ctx, k, first, 3, "c"); n != 3 || err != nil {
			t.Errorf("refund once: got %d, %v; want 3", n, err)
		}
	}
	if n, err := later.Refund(ctx, k, first, 2); n != 2 || err != nil {
		t.Errorf("refund: got %d, %v; want 2", n, err)
	}
	used(3)
	if _, err := at.AllowOnce(ctx, k, 1, ""); !errors.Is(err, ErrID) {
		t.Errorf("an empty id: got %v, want ErrID", err)
	}
}
