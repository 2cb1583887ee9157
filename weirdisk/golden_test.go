package weirdisk

import (
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var rewrite = flag.Bool("weirdisk.rewrite", false, "write testdata/v6 again, after a change of the format")

// TestFormatIsReadable opens a segment that an earlier program wrote. All of its instants
// are of callers, so nothing in it expires.
func TestFormatIsReadable(t *testing.T) {
	const segment, items = "testdata/v6.weirlog", "testdata/v6.txt"
	dir := t.TempDir()
	if *rewrite {
		writeFormat(t, dir)
		write(t, segment, fileBytes(t, segmentPath(dir, 2)))
		write(t, items, []byte(itemsIn(t, dir)))
	}
	want := fileBytes(t, items)
	dir = t.TempDir()
	leave(t, dir, fileBytes(t, segment), false)
	e := open(t, dir)
	assert.Equal(t, e.Recovery(), Cut{}, "cut")
	e.Close()
	assert.Equal(t, itemsIn(t, dir), string(want), "items")
}

// itemsIn returns the content of a directory, a line for each item.
func itemsIn(t *testing.T, dir string) string {
	all := content(t, dir)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%q %v\n", name, all[name])
	}
	return b.String()
}

// TestNeverIsStoredAsMinusOne: the stored form of a wait does not depend on the value of Never.
func TestNeverIsStoredAsMinusOne(t *testing.T) {
	for _, c := range []struct {
		wait   time.Duration
		stored int64
	}{{engine.Never, -1}, {0, 0}, {time.Microsecond, 1000}, {time.Hour, 3_600_000_000_000}} {
		w := codec{writes: true}
		w.wait(&c.wait)
		want := binary.AppendVarint(nil, c.stored)
		assert.Equal(t, string(w.b), string(want), "%v is stored as", c.wait)
		r, read := codec{b: w.b}, time.Duration(0)
		r.wait(&read)
		if read != c.wait || r.bad {
			t.Errorf("%v is read as %v; bad: %v", c.wait, read, r.bad)
		}
	}
	r, read := codec{b: binary.AppendVarint(nil, -2)}, time.Duration(0)
	if r.wait(&read); !r.bad {
		t.Errorf("-2 is read as %v", read)
	}
}

// TestReplayAfterRestartNeverFits: an operation that is read from the directory has the wait of
// its first answer (R15).
func TestReplayAfterRestartNeverFits(t *testing.T) {
	dir := t.TempDir()
	counting := weir.Policy{Name: "p", Mode: weir.CountDenied, Limits: []weir.Limit{daily}}
	for _, replayed := range []bool{false, true} {
		e := open(t, dir)
		l, err := weir.New(counting, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.AllowOnce(ctx, weir.K("ann"), 11, "id")
		if err != nil || d.Allowed || d.RetryAfter != weir.Never || d.Replayed != replayed {
			t.Errorf("got %+v, %v; want Never, replayed: %v", d, err, replayed)
		}
		e.Close()
	}
}

// stateCalls are calls that begin and end blocks, and open, extend and settle reservations.
func stateCalls(rules *engine.Compiled, from time.Time, round int) (calls []engine.Call) {
	at := from.Add(2 * time.Minute).UnixMicro()
	limits := []engine.Limit{
		{Name: "running", Kind: engine.KindConcurrency, Max: 99, Window: 60_000_000},
		{Name: "tokens", Max: 90, Window: 3_600_000_000, Block: 60_000_000},
	}
	holding := engine.Compile("holding", engine.AllOrNothing, nil, limits)
	open, settled := fmt.Sprint("open", round), fmt.Sprint("settled", round)
	all := []engine.Call{
		{Rules: holding, N: 3, ID: open, TTL: 3_600_000_000},
		{Rules: holding, N: 2, ID: settled, TTL: 3_600_000_000},
		{Rules: holding, Op: engine.Extend, N: 4, From: 3, ID: open},
		{Rules: holding, Op: engine.Settle, N: 1, ID: settled},
		{Rules: holding, N: 91},
		{Rules: holding, Op: engine.Block, From: 0},
		{Rules: holding, Op: engine.Probe, N: 91},
		{Rules: rules, Key: engine.K("eve"), Op: engine.Block, From: 900_000_000},
	}
	for i, c := range all {
		c.At, c.Given = at+int64(i), true
		calls = append(calls, c)
	}
	return calls
}

// writeFormat makes a directory with an entry of every kind, before and in a snapshot.
func writeFormat(t *testing.T, dir string) {
	e := open(t, dir)
	counting := weir.Policy{Name: "counting", Mode: weir.CountDenied, Limits: []weir.Limit{{Name: "l", Max: 2, Window: time.Hour, By: []string{"user"}}}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for round := range 2 {
		rates := newLimiter(t, e, daily,
			weir.Limit{Name: "all", Max: 1 << 50, Window: time.Hour},
			weir.Limit{Name: "paths", Max: 9, Window: time.Hour, By: []string{"user", "path"}, Cells: 4},
			weir.Limit{Name: "bucket", Kind: weir.KindBucket, Max: 7, Window: time.Hour, Burst: 20, By: []string{"user"}})
		k := weir.K("ann", "/x")
		for i := range 3 {
			now := at.Add(time.Duration(i) * time.Minute)
			l := rates.At(now)
			if _, err := l.AllowN(ctx, k, int64(1+i)); err != nil {
				t.Fatal(err)
			}
			if _, err := l.AllowOnce(ctx, k, 1, fmt.Sprint("id", round, i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := rates.At(at.Add(5*time.Minute)).Refund(ctx, k, at, 1); err != nil {
			t.Fatal(err)
		}
		denied, err := weir.New(counting, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := denied.At(at.Add(time.Minute)).AllowN(ctx, weir.K("ann"), 3); err != nil {
			t.Fatal(err)
		}
		if _, err := denied.At(at.Add(time.Minute)).AllowOnce(ctx, weir.K("ann"), 3, fmt.Sprint("denied", round)); err != nil {
			t.Fatal(err)
		}
		if _, err := rates.At(at.Add(-time.Minute)).AllowN(ctx, k, 1); err != nil { // the clock was corrected
			t.Fatal(err)
		}
		if _, err := rates.Reset(ctx, weir.K("bob", "/x"), rates.Compiled().LimitNames()...); err != nil {
			t.Fatal(err)
		}
		for _, c := range stateCalls(denied.Compiled(), at, round) {
			calls := []engine.Call{c}
			e.Do(ctx, calls)
			must.Do(t, calls[0].Err)
		}
		waiting := newLimiter(t, e, weir.Limit{Name: "waiting", Max: 2, Window: time.Hour})
		for i, n := range []int64{2, 1, 2, 1} {
			if _, err := waiting.At(at.Add(time.Duration(i)*time.Second)).Decide(ctx, weir.K(), weir.Request{N: n, MaxWait: weir.Never, ID: fmt.Sprint("wait", round, i)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := waiting.At(at.Add(time.Minute)).Refund(ctx, weir.K(), at.Add(2*time.Hour), 1); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			snapshotNow(t, e)
		}
		at = at.Add(10 * time.Minute)
	}
	e.Close()
}
