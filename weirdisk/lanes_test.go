package weirdisk

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
)

// TestLanesLoadTheSame: in any number of lanes the log of callers and snapshots gives the same
// histories and operations. Some limits share their keys, and some have others.
func TestLanesLoadTheSame(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, SyncOff(), snapshotsEvery(64<<10))
	user, both := []string{"user"}, []string{"tenant", "user"}
	var limiters []*weir.Limiter
	for i, limits := range [][]weir.Limit{
		{{Name: "one", Max: 1 << 30, Window: time.Hour, By: user}, {Name: "short", Max: 50, Window: time.Minute, By: user}},
		{{Name: "two", Max: 1 << 30, Window: time.Hour, By: both}},
		{{Name: "bucket", Max: 50, Window: time.Hour, By: user, Kind: weir.Bucket}},
		{{Name: "tenant", Max: 1 << 30, Window: time.Hour, By: both[:1]}, {Name: "user", Max: 1 << 30, Window: time.Hour, By: user}},
		{{Name: "all", Max: 1 << 30, Window: time.Hour}},
	} {
		l, err := weir.New(weir.Policy{Name: fmt.Sprint("p", i), Limits: limits}, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		limiters = append(limiters, l)
	}
	var callers sync.WaitGroup
	for c := range 4 {
		callers.Go(func() {
			l := limiters[0]
			for i := range 5000 {
				if i%64 == 0 {
					l = limiters[rand.IntN(len(limiters))]
				}
				values := []string{fmt.Sprint(rand.IntN(300)), fmt.Sprint(rand.IntN(3))}
				key := weir.K(values[:len(l.Compiled().Dimensions)]...)
				var err error
				switch n := 1 + rand.Int64N(3); rand.IntN(40) {
				case 0:
					err = l.Reset(ctx, key)
				case 1:
					_, err = l.Refund(ctx, key, time.Now(), n)
				case 2:
					_, err = l.AllowOnce(ctx, key, n, fmt.Sprint(c, i))
				default:
					_, err = l.AllowN(ctx, key, n)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := find(system{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	found.skipOld()
	var want []string
	for _, n := range []int{1, 2, 5} {
		l, err := found.load(memory.New(memory.Options{}), n)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := visit(l.decoder.memory, func(i *Item) error {
			if len(i.Entries) == 0 {
				i.Entries = nil
			}
			line, err := json.Marshal(i)
			got = append(got, string(line))
			return err
		}, &Report{}); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(got); n == 1 {
			want = got
		}
		if len(got) < 1000 || !slices.Equal(got, want) {
			t.Errorf("%d histories and operations in %d lanes, %d in one lane, want the same ones", len(got), n, len(want))
		}
	}
}

// TestOperationsStayInOrder: two policies have the same operations for keys of different orders. The
// one that an idempotency key names last is the one that a start remembers.
func TestOperationsStayInOrder(t *testing.T) {
	lane := func(values ...string) uint32 {
		var b []byte
		for _, v := range values {
			b = appendString(b, v)
		}
		return crc32.Checksum(b, castagnoli) % 2
	}
	a, b := "a", "b"
	for i := 0; lane(a, b) == lane(b, a); i++ {
		a = fmt.Sprint("a", i)
	}
	dir := t.TempDir()
	e := open(t, dir, SyncOff())
	limiter := func(e engine.Engine, by ...string) *weir.Limiter {
		return newLimiter(t, e, weir.Limit{Name: "l", Max: 1 << 30, Window: time.Minute, By: by})
	}
	must := func(_ weir.Decision, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	one, two, start := limiter(e, "x", "y"), limiter(e, "y", "x"), time.Now()
	later := start.Add(2 * time.Minute) // the operation is forgotten, and its name is free
	for range aloneTasks {
		must(one.Allow(ctx, weir.K("z", "z")))
		must(two.Allow(ctx, weir.K("z", "z")))
	}
	must(one.At(start).AllowOnce(ctx, weir.K(a, b), 1, "id"))
	must(two.At(later).AllowOnce(ctx, weir.K(b, a), 1, "id"))
	for range 20 * laneTasks { // this lane begins first
		must(two.At(later).Allow(ctx, weir.K(b, a)))
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := find(system{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2} {
		l, err := found.load(memory.New(memory.Options{}), n)
		if err != nil {
			t.Fatal(err)
		}
		d, err := limiter(l.decoder.memory, "y", "x").At(later.Add(time.Second)).AllowOnce(ctx, weir.K(b, a), 1, "id")
		if err != nil || !d.Replayed {
			t.Errorf("%d lanes: replayed %t, %v", n, d.Replayed, err)
		}
	}
}

// TestForgottenHistoriesTakeNoRoom: the engine forgot histories to stay within a cap. The log has
// them, and the directory opens.
func TestForgottenHistoriesTakeNoRoom(t *testing.T) {
	const window = 10 * time.Millisecond
	limit := weir.Limit{Name: "l", Max: 9, Window: window, By: []string{"user"}}
	once := weir.Limit{Name: "l", Max: 9, Window: time.Hour, By: []string{"user"}}
	for name, most := range map[string]Option{"keys": MaxKeys(200), "bytes": MaxBytes(200 << 10)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := open(t, dir, SyncOff(), most)
			if _, err := newLimiter(t, e, once).AllowOnce(ctx, weir.K("ann"), 3, "id"); err != nil {
				t.Fatal(err)
			}
			l, err := weir.New(weir.Policy{Name: "short", Limits: []weir.Limit{limit}}, weir.WithEngine(e))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 4000 {
				for tries := 0; ; tries++ {
					_, err := l.Allow(ctx, weir.K(fmt.Sprint("user-", i)))
					if err == nil {
						break
					}
					if !errors.Is(err, weir.ErrFull) || tries == 1000 {
						t.Fatal(err)
					}
					time.Sleep(window)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			after := open(t, dir, most)
			d, err := newLimiter(t, after, once).AllowOnce(ctx, weir.K("ann"), 3, "id")
			if err != nil || !d.Replayed || d.Remaining != 6 {
				t.Errorf("got %+v, %v, want the answer before, 6 left", d, err)
			}
		})
	}
}

// TestLanesKeepACap: a directory opens under the cap that its histories kept, one after the other.
// In lanes, one may come while another is still there.
func TestLanesKeepACap(t *testing.T) {
	dir, capped := t.TempDir(), MaxKeys(1)
	e := open(t, dir, SyncOff(), capped)
	l := newLimiter(t, e, weir.Limit{Name: "l", Max: 1 << 30, Window: time.Hour, By: []string{"user"}})
	for range 2 * laneTasks { // its lane has begun and not ended when the log does
		if _, err := l.Allow(ctx, weir.K("first")); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Reset(ctx, weir.K("first")); err != nil {
		t.Fatal(err)
	}
	lane := func(key string) int {
		return int(crc32.Checksum([]byte(key), castagnoli) % uint32(max(processors(), 2)))
	}
	last := "last"
	for i := 0; lane(last) == lane("first"); i++ {
		last = fmt.Sprint(i)
	}
	if _, err := l.Allow(ctx, weir.K(last)); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := visit(open(t, dir, capped).memory, func(i *Item) error {
		if n++; string(i.Key) != last {
			t.Errorf("there is %q, want %q", i.Key, last)
		}
		return nil
	}, &Report{}); err != nil || n != 1 {
		t.Errorf("%d histories, %v, want one", n, err)
	}
}
