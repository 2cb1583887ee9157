package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestFastPathHasItsOwnKeys: the fast path takes the first value of a key as the name of a
// history. Rules that count by several values, or by another one, do not use it (R7).
func TestFastPathHasItsOwnKeys(t *testing.T) {
	pair := keyenc.Append(keyenc.Append(nil, "x"), "y")
	for _, c := range []struct {
		name    string
		by      []int
		granted engine.Key // granted first
		other   engine.Key // has a history of its own
		same    engine.Key // has the first one's
	}{
		{"both values", []int{0, 1}, K("x", "y"), K(string(pair), "z"), K("x", "y")},
		{"the second value", []int{1}, K("a", "x"), K("x", "b"), K("c", "x")},
		{"the first value", []int{0}, K("x", "a"), K("b", "x"), K("x", "c")},
	} {
		l := &limiter{memory: New(Options{}), rules: engine.Compile("p", engine.AllOrNothing, []string{"user", "path"},
			[]engine.Limit{{Name: "l", Max: 5, Window: time.Minute.Microseconds(), By: c.by}})}
		for _, want := range []struct {
			key       engine.Key
			remaining int64
		}{{c.granted, 4}, {c.other, 4}, {c.same, 3}} {
			assert.Equal(t, mustAllow(t, l, want.key).Remaining, want.remaining, "%s, %+v: left", c.name, want.key)
		}
	}
}

// TestFastPathTakesNoCost: a limit that gets a cost while single units of it count takes the
// cost from the next attempt on (R7, R12).
func TestFastPathTakesNoCost(t *testing.T) {
	m := New(Options{})
	p := perUser(5, time.Minute)
	assert.Equal(t, mustAllow(t, m.on(p), K("a")).Remaining, 4, "left")
	p.Limits[0].Cost = 3
	assert.Equal(t, mustAllow(t, m.on(p), K("a")).Remaining, 1, "left of 4 by a cost of 3")
}

// TestFastPathKnowsALowerMax: after Max was lowered several units must leave before one fits, and
// the wait ends with the last of them (R8, R12).
func TestFastPathKnowsALowerMax(t *testing.T) {
	m := New(Options{})
	p, start := perUser(5, time.Minute), time.Unix(1_700_000_000, 0)
	for i := range 4 {
		granted(t, mustAllow(t, m.on(p).At(start.Add(time.Duration(i)*time.Second)), K("a")))
	}
	p.Limits[0].Max = 2
	d, err := m.on(p).At(start.Add(4 * time.Second)).Allow(K("a"))
	if err != nil || d.Allowed || d.Remaining != -2 || d.RetryAfter != 58*time.Second {
		t.Errorf("%+v, %v; want a denial with -2 left, until the third unit leaves in 58s", d, err)
	}
}

// TestNoDecisionBesideAnError: an attempt without room for its entry leaves no part of a decision
// (R13).
func TestNoDecisionBesideAnError(t *testing.T) {
	m := New(Options{})
	l := m.on(perUser(100, time.Minute))
	for range 5 { // as many as the slot holds
		granted(t, mustAllow(t, l, K("a")))
	}
	m.SetCaps(0, m.Bytes())
	d, err := l.Allow(K("a"))
	if !errors.Is(err, engine.ErrFull) || d != (engine.Result{}) {
		t.Errorf("got %+v, %v; want engine.ErrFull alone", d, err)
	}
}

// BenchmarkFastPath compares the fast path with the general one, on the same keys in alternating
// rounds.
func BenchmarkFastPath(b *testing.B) {
	p := policy{Name: "p", Limits: []limit{{Max: 1 << 30, Window: 10 * time.Millisecond, By: []string{"user"}}}}
	for _, keys := range []int{1, 10_000} {
		users := make([]string, keys)
		for i := range users {
			users[i] = fmt.Sprintf("user:%011d", i)
		}
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			const round = 512
			paths := []*limiter{newLimiter(p), newLimiter(p)}
			paths[1].memory.Rules(paths[1].rules).isFast = false
			var took [2]time.Duration
			var d engine.Result
			for first := 0; b.Loop(); first += round {
				for path, l := range paths {
					start := time.Now()
					for i := range round {
						k := K(users[(first+i)*7919%keys])
						d = engine.Result{}
						if r := l.memory.Rules(l.rules); !r.AllowFast(&k, 1, &d) {
							if err := r.Allow(&k, 1, &d); err != nil {
								b.Fatal(err)
							}
						}
					}
					took[path] += time.Since(start)
				}
			}
			b.ReportMetric(float64(took[0])/float64(took[1]), "fast/general")
		})
	}
}

// TestKeysOfOneHash: keys whose hashes are equal have a history each, under one limit and under
// two (R14). Callers cannot find such keys: they contain a secret of the engine.
func TestKeysOfOneHash(t *testing.T) {
	for n := 1; n <= 2; n++ {
		m := New(Options{})
		seed := reflect.ValueOf(&m.table).Elem().FieldByName("seeds").Index(0).Uint()
		half := binary.LittleEndian.AppendUint64(nil, seed) // the hash is a product with this half ^ seed
		first, second := string(half)+"12345678", string(half)+"abcdefgh"
		if a, b := m.table.Text(first).In(&m.table, 0, false), m.table.Text(second).In(&m.table, 0, false); a.Before(&b) || b.Before(&a) {
			t.Fatal("the hashes differ")
		}
		l := m.on(limits(n))
		for i := range int64(6) {
			key := first
			if i%2 == 1 {
				key = second
			}
			assert.Equal(t, mustAllow(t, l, K(key)).Remaining, 99-i/2, "%d limits, unit %d of a key: left", n, i/2+1)
		}
	}
}

// TestStatesOfAnotherLength: the call is bad input and leaves no lock behind.
func TestStatesOfAnotherLength(t *testing.T) {
	l := New(Options{}).on(perUser(2, time.Hour))
	for _, op := range []engine.Op{engine.Attempt, engine.Peek, engine.Record} {
		for _, n := range []int{0, 2} {
			calls := []engine.Call{{Rules: l.rules, Key: K("ann"), Op: op, N: 1, States: make([]engine.State, n)}}
			l.memory.Do(t.Context(), calls)
			assert.Error(t, calls[0].Err, &engine.InputError{Field: "request"})
		}
	}
	assert.Equal(t, mustAllow(t, l, K("ann")).Remaining, 1, "left after bad input")
}
