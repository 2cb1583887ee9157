package weir

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/keytable"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestSeveralLimitsInAnyOrder: callers whose policies lock the same records in opposite
// orders, and callers of the general path, all go on, and every limit counts all grants.
func TestSeveralLimitsInAnyOrder(t *testing.T) {
	const most, callers, attempts = 3000, 4, 1000
	p := Policy{Name: "p", Limits: []Limit{
		{Name: "user", Max: 2 * most, Window: time.Hour, By: []string{"user"}},
		{Name: "path", Max: most, Window: time.Hour, By: []string{"user", "path"}},
		{Name: "all", Max: 3 * most, Window: time.Hour},
	}}
	m := NewMemory()
	forth := mustNew(t, p, WithEngine(m))
	slices.Reverse(p.Limits)
	p.Limits[1].By = []string{"user", "path"}
	back := mustNew(t, p, WithEngine(m))
	var granted atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range attempts {
				l, n := forth, int64(1)
				if i%2 == 1 {
					l = back
				}
				if j%100 == 99 {
					n = 2
				}
				d, err := l.AllowN(ctx, K("42", "a"), n)
				if err != nil {
					t.Error(err)
				}
				granted.Add(d.Granted)
			}
		})
	}
	all.Wait()
	if got := granted.Load(); got != most {
		t.Errorf("%d units are granted, want %d", got, most)
	}
	for _, limit := range []string{"user", "path", "all"} {
		if got, err := forth.Count(ctx, K("42", "a"), limit, time.Hour); got != most || err != nil {
			t.Errorf("limit %q counts %d units (%v), want %d", limit, got, err, most)
		}
	}
}

// TestSeveralWaitsWithoutALock: a caller that waits for one record holds no other. With a
// record on the other clock it takes the general path, and leaves no record locked.
func TestSeveralWaitsWithoutALock(t *testing.T) {
	p := limits(3)
	for i := range p.Limits {
		p.Limits[i].Window = time.Hour
	}
	l := mustNew(t, p)
	p.Limits = p.Limits[1:2]
	second := mustNew(t, p, WithEngine(l.memory))
	l.Allow(ctx, K("42"))
	var places [3]held
	k := K("42")
	if !l.memory.candidates(l.memory.compiled(l.plan).limits, &k, places[:]) {
		t.Fatal("a record is not found")
	}
	for i := range places {
		places[i].record.Lock()
		done := make(chan Decision)
		go func() {
			d, _ := l.Allow(ctx, k)
			done <- d
		}()
		for j := range places {
			for range 100 {
				if runtime.Gosched(); j != i {
					lockOnce(places[j].record)
				}
			}
		}
		places[i].record.Unlock()
		if d := <-done; d.Remaining != 100-2-int64(i) {
			t.Errorf("record %d locked: %+v, want %d left", i, d, 100-2-i)
		}
	}
	if d, err := second.AllowAt(ctx, k, 1, time.UnixMicro(l.memory.now())); !d.Allowed || err != nil {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := l.Allow(ctx, k); d.Remaining != 100-6 || err != nil {
		t.Errorf("%+v, %v, want %d left", d, err, 100-6)
	}
	for i := range places {
		lockOnce(places[i].record)
	}
}

// lockOnce returns when no caller holds the record.
func lockOnce(r *keytable.Record) {
	r.Lock()
	defer r.Unlock()
}

// TestSeveralAnswersAsTheGeneralPath: windows and buckets under one policy answer as they do
// on an engine that takes the general path, attempt by attempt.
func TestSeveralAnswersAsTheGeneralPath(t *testing.T) {
	for seed := range uint64(race.Fewer(40)) {
		r := rand.New(rand.NewPCG(seed, 7))
		p := Policy{Name: "p"}
		for i := range 1 + r.IntN(5) {
			p.Limits = append(p.Limits, Limit{Name: fmt.Sprint("l", i), Kind: []Kind{Rolling, Bucket}[r.IntN(2)],
				Max: 1 + r.Int64N(6), Window: time.Duration(1+r.IntN(50)) * time.Millisecond,
				By: [][]string{{"user"}, {"user"}, {"user", "path"}, nil}[r.IntN(4)]})
		}
		fast, general := mustNew(t, p), mustNew(t, p)
		general.simple, general.memory.compiled(general.plan).simple, general.memory.compiled(general.plan).several = nil, false, false
		at := time.UnixMicro(1_700_000_000_000_000)
		for step := range 2000 {
			at = at.Add(time.Duration(r.IntN(2)*r.IntN(20_000)-r.IntN(20)*r.IntN(2)) * time.Microsecond)
			k := K([]string{fmt.Sprint(r.IntN(3)), fmt.Sprint(r.IntN(2))}[:len(fast.plan.dimensions)]...)
			n := 1 + r.Int64N(3)*(r.Int64N(10)/9)
			got, err := fast.AllowAt(ctx, k, n, at)
			want, _ := general.AllowAt(ctx, k, n, at)
			if got != want || err != nil {
				t.Fatalf("seed %d, step %d: %d units at %v: got %+v (%v), want %+v; limits %+v", seed, step, n, at, got, err, want, p.Limits)
			}
			if got.Allowed && r.IntN(10) == 0 {
				fast.At(at).Refund(ctx, k, got.At, 1)
				general.At(at).Refund(ctx, k, got.At, 1)
			}
		}
	}
}
