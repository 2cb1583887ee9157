package weirdisk

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestTogetherSurvivesTogether: wherever the log of transfers between two keys is cut, the
// next start finds both halves of a transfer or none.
func TestTogetherSurvivesTogether(t *testing.T) {
	needs.Time(t)
	const transfers = 40
	dir := t.TempDir()
	e := open(t, dir, SyncEvery(time.Hour))
	limit := weir.Limit{Name: "l", Max: transfers, Window: time.Hour, By: []string{"k"}}
	l := newLimiter(t, e, limit)
	r := weir.Request{N: 1}
	for range transfers {
		calls := []weir.Call{{Limiter: l, Key: weir.K("from"), Request: r}, {Limiter: l, Key: weir.K("to"), Request: r}}
		if err := weir.DecideTogether(ctx, calls); err != nil || !calls[0].Decision.Allowed {
			t.Fatalf("%+v, %v", calls, err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q, %v; want one segment", paths, err)
	}
	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) > 130*transfers {
		t.Errorf("%d bytes for %d transfers; is the policy written with each?", len(whole), transfers)
	}
	seen := map[int64]bool{}
	for n := headerSize; n <= len(whole); n += 11 {
		cut := t.TempDir()
		leave(t, cut, whole[:n], false)
		e, err := Open(cut, light)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		var counts [2]int64
		for i, key := range []string{"from", "to"} {
			if counts[i], err = newLimiter(t, e, limit).Count(ctx, weir.K(key), "l", time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if counts[0] != counts[1] {
			t.Fatalf("%d bytes of the log hold %d units of the one key and %d of the other", n, counts[0], counts[1])
		}
		seen[counts[0]] = true
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) < transfers/2 {
		t.Errorf("only %v units were seen", seen)
	}
}

// TestTogetherWithALongerWindow: calls together are the first to use a longer window of one of
// their policies, and the directory opens (R12). The log names histories, not joined rules.
func TestTogetherWithALongerWindow(t *testing.T) {
	for name, second := range map[string]string{"two policies": "b", "two keys of one policy": "a"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := open(t, dir, SyncEvery(time.Hour))
			limiter := func(e *Engine, policy string, window time.Duration) *weir.Limiter {
				l, err := weir.New(weir.Policy{Name: policy, Limits: []weir.Limit{{Name: "l", Max: 10, Window: window, By: []string{"k"}}}}, weir.WithEngine(e))
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			if _, err := limiter(e, "a", time.Minute).Allow(ctx, weir.K("x")); err != nil {
				t.Fatal(err)
			}
			longer := limiter(e, "a", time.Hour)
			other := longer
			if second != "a" {
				other = limiter(e, second, time.Minute)
			}
			calls := []weir.Call{{Limiter: longer, Key: weir.K("x"), Request: weir.Request{N: 1}}, {Limiter: other, Key: weir.K("y"), Request: weir.Request{N: 1}}}
			if err := weir.DecideTogether(ctx, calls); err != nil || !calls[0].Decision.Allowed {
				t.Fatal(calls, err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = open(t, dir, SyncEvery(time.Hour))
			if d, err := limiter(e, "a", time.Hour).Peek(ctx, weir.K("x"), 1); err != nil || d.Remaining != 8 {
				t.Errorf("got %+v, %v, want 8 left", d, err)
			}
		})
	}
}
