package weirdisk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/dims"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// content returns everything that counts in a directory that is not in use, by name.
func content(t testing.TB, dir string) map[string]any {
	t.Helper()
	all := map[string]any{}
	if _, err := visit(dir, func(c *memory.Change) error { addItem(all, c); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// contentOf returns everything that counts in an engine.
func contentOf(m *memory.Memory) map[string]any {
	all := map[string]any{}
	visitAll(m, func(i *memory.Change) error { addItem(all, i); return nil })
	return all
}

// addItem adds a copy of the item, so that copies with equal fields are equal.
func addItem(all map[string]any, i *memory.Change) {
	if i.Operation != nil {
		o := *i.Operation
		text := fmt.Sprint(i.Virtual, " ", i.At)
		if o.Bound != nil {
			text += fmt.Sprintf(" bound %+v", *o.Bound)
		}
		if r := o.Reservation; r != nil {
			if r.Extension != nil {
				text += fmt.Sprintf(" extension %+v", *r.Extension)
			}
			copied := *r
			copied.Extension = nil
			text += fmt.Sprintf(" reservation %+v", copied)
		}
		o.Bound, o.Reservation = nil, nil
		all["operation "+o.Name] = fmt.Sprintf("%s %+v", text, o)
		return
	}
	if i.Kind == memory.Block {
		all["block "+i.Name+"\x00"+string(i.Key)] = fmt.Sprintf("%v from %d to %d", i.Virtual, i.At, i.End)
		return
	}
	text := fmt.Sprintf("%v last %d, %v, bucket %d %d %d %d %d", i.Virtual, i.At, i.Entries, i.Max, i.Window, i.Full, i.Part, i.Front)
	if i.End != 0 {
		text += fmt.Sprintf(", ahead %v until %d", i.Ahead, i.End)
	}
	all["history "+i.Name+"\x00"+string(i.Key)] = text
}

// compare fails the test at the first item that differs.
func compare(t *testing.T, from string, got, want map[string]any) {
	t.Helper()
	all := maps.Clone(got)
	maps.Copy(all, want)
	for name := range all {
		if got[name] != want[name] {
			t.Fatalf("%s: %q\ngot  %v\nwant %v", from, name, got[name], want[name])
		}
	}
}

// policyAt is one of a few policies of all kinds. Those of one name change each other's
// limits (R12).
func policyAt(r *rand.Rand) weir.Policy {
	window := time.Duration(1+r.IntN(100)) * time.Hour
	user, path := []string{"user"}, []string{"user", "path"}
	limits := [][]weir.Limit{
		{{Name: "a", Max: 1 + r.Int64N(50), Window: window, By: user, Block: time.Duration(r.IntN(2)) * time.Hour}},
		{{Name: "a", Max: 40, Window: time.Hour, By: user, MinInterval: time.Duration(r.IntN(2)) * time.Microsecond}, {Name: "b", Max: 90, Window: window, By: path}, {Name: "c", Max: 1 << 40, Window: window}},
		{{Name: "d", Kind: weir.KindBucket, Max: 1 + r.Int64N(9), Window: window, Burst: 30, By: user}, {Name: "e", Max: 30, Window: window, By: path, Cells: 20}},
		{{Name: "f", Kind: weir.KindFixedFromFirst, Max: 20, Window: window, By: user}, {Name: "g", Kind: weir.KindFixed, Max: 50, Period: weir.Day, Zone: "Europe/Berlin", By: user}},
		{{Name: "h", Kind: weir.KindConcurrency, Max: 9, MaxHold: window, By: user}, {Name: "i", Max: 60, Block: time.Hour, Window: window, By: path, Cost: r.Int64N(3)}},
	}
	p := weir.Policy{Name: fmt.Sprint("p", r.IntN(2)), Limits: limits[r.IntN(len(limits))]}
	p.Dimensions = dims.Of(p.Limits...)
	if p.Limits[0].Name != "h" && r.IntN(3) == 0 {
		p.Mode = weir.CountDenied
	}
	return p
}

// target returns a limiter of one of the policies, and a key.
func target(r *rand.Rand, e engine.Engine) (*weir.Limiter, weir.Key, error) {
	l, err := weir.New(policyAt(r), weir.WithEngine(e))
	if err != nil {
		return nil, weir.Key{}, err
	}
	values := []string{fmt.Sprint("user", r.IntN(6)), fmt.Sprint("path", r.IntN(2)), ""}
	return l, weir.K(values[:len(l.Compiled().Dimensions)]...), nil
}

// act makes a random call that may change something. Its error is that of the engine.
func act(r *rand.Rand, e engine.Engine) error {
	l, k, err := target(r, e)
	other, otherKey, otherErr := target(r, e)
	if err = errors.Join(err, otherErr); err != nil {
		return err
	}
	switch x := r.IntN(100); {
	case x < 40:
		_, err = l.AllowN(ctx, k, 1+r.Int64N(3))
	case x < 50:
		err = weir.DecideTogether(ctx, []weir.Call{
			{Limiter: l, Key: k, Request: weir.Request{N: 1}}, {Limiter: other, Key: otherKey, Request: weir.Request{N: 2}}})
	case x < 58:
		_, err = l.At(time.Now().Add(time.Duration(r.IntN(6000)-3000)*time.Millisecond)).Allow(ctx, k)
	case x < 66:
		_, err = l.Record(ctx, k, 1+r.Int64N(20))
	case x < 74:
		_, err = l.AllowOnce(ctx, k, 1, fmt.Sprint("id", r.IntN(30)))
	case x < 78:
		_, err = (&weir.Call{Limiter: l, Key: k, Op: engine.Refund, From: time.Now(), Request: weir.Request{N: 1, ID: fmt.Sprint("id", r.IntN(30))}}).Do(ctx)
	case x < 82:
		var d weir.Decision
		if d, err = l.AllowN(ctx, k, 2); err == nil {
			_, err = l.Refund(ctx, k, d.At, 1)
		}
	case x < 88:
		err = actAhead(r, l, k)
	case x < 97:
		err = actOnState(r, e, l.Compiled(), k)
	default:
		_, err = l.Reset(ctx, k, l.Compiled().LimitNames()...)
	}
	if isRejected(err) {
		return nil
	}
	return err
}

// isRejected reports whether a call was rejected: for an id of another operation, for units beyond
// a bucket, or because a reservation is settled or over.
func isRejected(err error) bool {
	for _, rejected := range []error{weir.ErrInput, weir.ErrOverflow, engine.ErrExpired, engine.ErrSettled} {
		if errors.Is(err, rejected) {
			return true
		}
	}
	return false
}

// actAhead books an appointment, or cancels the last one.
func actAhead(r *rand.Rand, l *weir.Limiter, k weir.Key) error {
	if r.IntN(4) > 0 {
		_, err := l.Decide(ctx, k, weir.Request{N: 1 + r.Int64N(20), MaxWait: weir.Never, ID: fmt.Sprint("wait", r.IntN(40))})
		return err
	}
	states := make([]weir.LimitState, len(l.Compiled().Limits))
	d, err := (&weir.Call{Limiter: l, Key: k, Op: engine.Peek, Request: weir.Request{N: 1, States: states}}).Do(ctx)
	if err != nil {
		return err
	}
	_, err = l.Refund(ctx, k, d.At.Add(states[0].LastAhead), 1)
	return err
}

// actOnState makes a random call on a reservation or a block.
func actOnState(r *rand.Rand, e engine.Engine, rules *engine.Compiled, k engine.Key) error {
	c := engine.Call{Rules: rules, Key: k, N: 1 + r.Int64N(3)}
	id := fmt.Sprint("job", r.IntN(4))
	switch r.IntN(8) {
	case 0, 1:
		c.ID, c.TTL = id, rules.LongestWindow.Microseconds()
	case 2, 3:
		c.Op, c.ID, c.N = engine.Settle, id, r.Int64N(7)-1
	case 4, 5:
		c.Op, c.ID, c.N, c.From = engine.Extend, id, r.Int64N(3), engine.Unknown
	case 6:
		c.Op = engine.Probe
	case 7:
		resets, err := rules.Resets(rules.LimitNames())
		if err != nil {
			return err
		}
		c.Rules, c.Op, c.From = resets, engine.Block, r.Int64N(2)*(3_600_000_000+r.Int64N(3_600_000_000)) // it outlasts the test
	}
	calls := []engine.Call{c}
	e.Do(ctx, calls)
	return calls[0].Err
}

// TestEveryPrefixIsAState: a log that is cut at any byte opens as the state after a call. So a
// reservation is open, extended or settled with all of its histories, never between (R19). The
// state has all calls that are whole in the log, and later calls go on from there.
func TestEveryPrefixIsAState(t *testing.T) {
	needs.Time(t)
	for seed := range uint64(race.Fewer(3)) {
		r := rand.New(rand.NewPCG(seed, 2))
		dir, cut := t.TempDir(), t.TempDir()
		e := open(t, dir, SyncEvery(time.Hour))
		path := segmentPath(dir, 1)
		states := map[int64]map[string]any{headerSize: {}} // by the bytes of the log
		size := int64(headerSize)
		for range 40 {
			if err := act(r, &everyStep{e, func() {
				if err := e.log.awaitWritten(); err != nil {
					t.Error(err)
				}
				size = e.log.size()
				states[size] = contentOf(e.memory)
			}}); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		must.Do(t, e.Close())
		whole, err := os.ReadFile(path)
		if err != nil || int64(len(whole)) != size {
			t.Fatalf("seed %d: the log has %d bytes, want %d (%v)", seed, len(whole), size, err)
		}
		ends := map[int64]bool{size: true} // offsets at which batches end
		for _, start := range framesOf(t, whole) {
			ends[start] = true
		}
		want := map[string]any{}
		for n := int64(headerSize); n <= size; n++ {
			if state, ok := states[n]; ok {
				want = state
			} else if _, before := states[n-1]; !before && n%31 != 0 {
				continue
			}
			leave(t, cut, whole[:n], false)
			compare(t, fmt.Sprintf("seed %d, %d of %d bytes", seed, n, size), content(t, cut), want)
			if n%93 == 0 { // the next process cuts the torn end and goes on
				copied := t.TempDir()
				leave(t, copied, whole[:n], false)
				e := open(t, copied, light)
				cut := e.Recovery()
				assert.Equal(t, cut.Bytes == 0, ends[n], "seed %d, %d of %d bytes: no cut, as only within a batch; got %+v", seed, n, size, cut)
				must.Do(t, act(r, e))
				want := contentOf(e.memory)
				e.Close()
				compare(t, fmt.Sprintf("seed %d, %d of %d bytes, and a call", seed, n, size), content(t, copied), want)
			}
		}
	}
}

// everyStep is an engine that calls after behind every call that may have changed something.
type everyStep struct {
	*Engine
	after func()
}

func (e *everyStep) Do(c context.Context, calls []engine.Call) {
	e.Engine.Do(c, calls)
	if op := calls[0].Op; op != engine.Peek && op != engine.Count {
		e.after()
	}
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(path, b, 0o600))
}

// TestSnapshotsAmongCallers: snapshots at any time, while callers go on, change no state, and
// leave one segment.
func TestSnapshotsAmongCallers(t *testing.T) {
	for seed := range uint64(3) {
		dir := t.TempDir()
		for life := range 3 {
			e := open(t, dir, SyncEvery(time.Millisecond), light)
			var callers sync.WaitGroup
			for i := range 4 {
				callers.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(10*life+i)))
					for range 400 {
						if err := act(r, e); err != nil {
							t.Errorf("seed %d: %v", seed, err)
							return
						}
					}
				})
			}
			for range 5 {
				snapshotNow(t, e)
			}
			callers.Wait()
			want := contentOf(e.memory)
			must.Do(t, e.Close())
			compare(t, fmt.Sprintf("seed %d, life %d", seed, life), content(t, dir), want)
			segments, err := list(dir)
			if err != nil {
				t.Fatal(err)
			}
			assert.Equal(t, len(segments), 1, "seed %d, life %d: segments", seed, life)
		}
	}
}

// snapshotNow takes a snapshot.
func snapshotNow(t testing.TB, e *Engine) {
	t.Helper()
	before := e.Stats().Snapshots
	e.keeper.now <- struct{}{}
	must.Await(t, "a snapshot", func() bool { return e.Stats().Snapshots > before })
}
