package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// mixedBatches makes batches of all operations, under two policies and at several instants. The
// specification gets the same calls one after the other. mixedBatches returns a report of the
// first different answer, or "".
func mixedBatches(e engine.Engine, c Config) string {
	want, prefix := c.spec(), freshPrefix()
	var rules []*engine.Compiled
	for _, most := range []int64{3, 9} {
		p, err := weir.Policy{Name: fmt.Sprint(prefix, most), Limits: []weir.Limit{{Name: "all", Max: most, Window: time.Minute, By: []string{"k"}}}}.Compile()
		mustBeValid(err)
		rules = append(rules, p)
	}
	r := rand.New(rand.NewPCG(c.Seed, 1<<36))
	for now := int64(defaultEpoch); now < defaultEpoch+300*5_000_000; now += 5_000_000 { // every 5 seconds
		batch := make([]engine.Call, 2+r.IntN(9))
		for i := range batch {
			batch[i] = engine.Call{Rules: rules[r.IntN(2)], Key: engine.K(values[r.IntN(2)]), Op: engine.Op(r.IntN(10)),
				N: r.Int64N(4), At: now + r.Int64N(4_000_000), Given: true}
			switch x := &batch[i]; {
			case x.Op == engine.Attempt && x.N > 0 && r.IntN(3) == 0:
				x.ID, x.TTL = fmt.Sprint(r.IntN(8)), 60_000_000
			case x.Op == engine.Settle || x.Op == engine.Extend:
				x.ID, x.From = fmt.Sprint(r.IntN(8)), engine.Unknown
			case x.Op == engine.Block: // few, so that something is decided
				x.N, x.From = 0, r.Int64N(2)*r.Int64N(3_000_000)
			case x.Op == engine.Count:
				x.From = 1 + r.Int64N(60_000_000)
			case x.Op == engine.Refund:
				x.From = engine.Oldest
			case x.Op == engine.Reset && r.IntN(4) > 0: // few, so that something counts
				x.Op = engine.Attempt
			}
		}
		alone, trace := slices.Clone(batch), ""
		e.Do(context.Background(), batch)
		for i := range batch {
			w, g := &alone[i], &batch[i]
			want.Do(context.Background(), alone[i:i+1])
			trace += fmt.Sprintf("%d: op %d of %d units, Max %s, key %s, at %d\n", i, w.Op, w.N, strings.TrimPrefix(w.Rules.Name, prefix), w.Key.Value(0), w.At-now)
			if differ(w, g) {
				return fmt.Sprintf("seed %d: a batch and the sequence of its calls differ in call %d\n%swant %+v, %v\ngot  %+v, %v\n  %s", c.Seed, i, trace, w.Result, w.Err, g.Result, g.Err, quoteRule(1))
			}
		}
	}
	return ""
}

// differ reports whether the answers to two calls differ in units, instant or error.
func differ(want, got *engine.Call) bool {
	w, g := want.Result, got.Result
	isSame := w.Granted == g.Granted && w.Allowed == g.Allowed && w.Remaining == g.Remaining && w.At.Equal(g.At)
	return !isSame || w.Blocked != g.Blocked || w.Replayed != g.Replayed || word(want.Err) != word(got.Err)
}

// word is errorWord, and "" for no error.
func word(err error) string {
	if err == nil {
		return ""
	}
	return errorWord(err)
}

// ended makes calls with a context that has ended. It returns a report of one that does not return soon,
// with a decision or the context's error, or "".
func ended(e engine.Engine, c Config) string {
	limiter, err := weir.New(weir.Policy{Name: freshPrefix() + "ended", Limits: []weir.Limit{{Name: "all", Max: 9, Window: time.Hour}}}, weir.WithEngine(e))
	if err != nil || !c.claims(limiter.Compiled(), "") {
		return ""
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	returned := make(chan error, 1)
	go func() {
		_, err := limiter.Allow(ctx, weir.K())
		returned <- err
	}()
	const soon = 10 * time.Second // a machine may be slow
	select {
	case err = <-returned:
	case <-time.After(soon):
		err = fmt.Errorf("it has not returned after %v", soon)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Sprintf("a call whose context has ended: %v; want a decision or the context's error\n  %s", err, quoteRule(15))
	}
	return ""
}
