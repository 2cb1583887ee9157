package gcra

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// asked is one line of a trace: when, how many, and what must come of it.
type asked struct {
	at, n     int64 // milliseconds; units
	limited   bool
	remaining int64
	reset     time.Duration
	retry     time.Duration
}

// trace is five at once and one a second, in the steps in which the tests of
// redis-cell and of the Go library it was modelled on walk through the algorithm.
var trace = []asked{
	{0, 6, true, 5, 0, weir.Never},
	{0, 1, false, 4, 1 * time.Second, weir.Never},
	{0, 1, false, 3, 2 * time.Second, weir.Never},
	{0, 1, false, 2, 3 * time.Second, weir.Never},
	{0, 1, false, 1, 4 * time.Second, weir.Never},
	{0, 1, false, 0, 5 * time.Second, weir.Never},
	{0, 1, true, 0, 5 * time.Second, 1 * time.Second},
	{3000, 1, false, 2, 3000 * time.Millisecond, weir.Never},
	{3100, 1, false, 1, 3900 * time.Millisecond, weir.Never},
	{4000, 1, false, 1, 4000 * time.Millisecond, weir.Never},
	{8000, 1, false, 4, 1000 * time.Millisecond, weir.Never},
	{9500, 1, false, 4, 1000 * time.Millisecond, weir.Never},
	{9500, 0, false, 4, 1 * time.Second, weir.Never},
	{9500, 2, false, 2, 3 * time.Second, weir.Never},
	{9500, 5, true, 2, 3 * time.Second, 3 * time.Second},
	{9500, 6, true, 2, 3 * time.Second, weir.Never},
}

func TestAttempts(t *testing.T) {
	table := NewTable(DefaultBytes)
	l := Limit{Burst: 4, Count: 1, Period: time.Second}
	for i, want := range trace {
		got, err := table.throttleAt("foo", l, want.n, want.at*1e6)
		if err != nil {
			t.Fatal(err)
		}
		if w := (Answer{want.limited, 5, want.remaining, want.retry, want.reset}); got != w {
			t.Errorf("step %d, %d units at %d ms: %+v, want %+v", i, want.n, want.at, got, w)
		}
	}
}

// TestWaitIsExact: after RetryAfter the attempt passes, a nanosecond sooner it
// does not.
func TestWaitIsExact(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		l := Limit{Burst: r.Int64N(20), Count: 1 + r.Int64N(5000), Period: time.Duration(1 + r.Int64N(int64(time.Hour)))}
		q, err := l.rate()
		if err != nil {
			t.Fatal(err)
		}
		now := r.Int64N(1e18)
		arrival, n := now+r.Int64N(q.burst+1), 1+r.Int64N(q.limit)
		a, _ := q.attempt(arrival, now, n)
		if !a.Limited {
			continue
		}
		at := now + int64(a.RetryAfter)
		if early, _ := q.attempt(arrival, at-1, n); !early.Limited {
			t.Errorf("seed %d: %+v, %d units: granted a nanosecond before the wait of %v is over", seed, l, n, a.RetryAfter)
		}
		if late, _ := q.attempt(arrival, at, n); late.Limited {
			t.Errorf("seed %d: %+v, %d units: still limited after the wait of %v", seed, l, n, a.RetryAfter)
		}
	}
}

// TestNeverMoreThanTheRate: a burst, and after it no more than Count in a Period,
// also where Period/Count is no whole number of nanoseconds.
func TestNeverMoreThanTheRate(t *testing.T) {
	for _, l := range []Limit{
		{0, 3, time.Second}, {2, 7, time.Second}, {9, 999_999_937, time.Second}, {0, 1e9 + 7, time.Second}, {5, 11, 13 * time.Nanosecond},
	} {
		q, err := l.rate()
		if err != nil {
			t.Fatal(err)
		}
		arrival, now, granted := int64(0), int64(0), int64(0)
		for range 10_000 {
			a, next := q.attempt(arrival, now, 1)
			if arrival = next; a.Limited {
				now += int64(a.RetryAfter)
				continue
			}
			granted++
			if most := float64(l.Burst+1) + float64(now)*float64(l.Count)/float64(l.Period); float64(granted) > most {
				t.Fatalf("%+v: %d units within %d ns, at most %.2f are right", l, granted, now, most)
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	table := NewTable(DefaultBytes)
	good := Limit{Burst: 1, Count: 1, Period: time.Second}
	bad := []Limit{
		{-1, 1, time.Second}, {weir.MaxUnits, 1, time.Second}, {1, 0, time.Second}, {1, -1, time.Second},
		{1, weir.MaxUnits + 1, time.Second}, {1, 1, 0}, {1, 1, -time.Second},
		{1 << 40, 1, time.Hour}, {1, 1, 100 * 365 * 24 * time.Hour},
	}
	for _, l := range bad {
		var e *LimitError
		if a, err := table.throttleAt("k", l, 1, 0); !errors.As(err, &e) || a != (Answer{}) {
			t.Errorf("%+v: %+v, %v; want a LimitError", l, a, err)
		}
	}
	for _, n := range []int64{-1, weir.MaxUnits + 1} {
		if _, err := table.throttleAt("k", good, n, 0); !errors.Is(err, weir.ErrUnits) {
			t.Errorf("%d units: %v, want ErrUnits", n, err)
		}
	}
	if _, err := table.throttleAt(string(make([]byte, weir.MaxValueBytes+1)), good, 1, 0); !errors.Is(err, weir.ErrKey) {
		t.Errorf("long key: %v, want ErrKey", err)
	}
	if table.Len() != 0 {
		t.Errorf("bad input left %d keys behind", table.Len())
	}
	if a, err := table.throttleAt("k", good, weir.MaxUnits, 0); err != nil || !a.Limited || a.RetryAfter != weir.Never {
		t.Errorf("as many units as there are: %+v, %v; want a refusal for ever", a, err)
	}
}
