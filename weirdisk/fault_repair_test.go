package weirdisk

import (
	"bytes"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestRepairIsNotTriedAllTheTime (D5): while the disk has room for a header and not for a
// snapshot, the engine tries once in a while.
func TestRepairIsNotTriedAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		f := &hooked{neverSynced, func(o operation, do func() error) error {
			if full.Load() && o.kind == stepWrite && !bytes.HasPrefix(o.data, []byte(magic)) {
				return syscall.ENOSPC
			}
			return do()
		}}
		const tick = 100 * time.Millisecond
		e := open(t, t.TempDir(), SyncAlways(), withFiles(f), func(o *options) { o.tick = tick })
		l := newLimiter(t, e, daily)
		for _, key := range []string{"ann", "bob", "eve"} {
			must.Get(l.Allow(ctx, weir.K(key)))(t)
		}
		full.Store(true)
		began := time.Now()
		if _, err := l.Allow(ctx, weir.K("ann")); err == nil {
			t.Fatal("a write failed, and the call did not")
		}
		must.Await(t, "some attempts", func() bool { return e.Stats().Failures >= 8 })
		failures, took := e.Stats().Failures, time.Since(began)
		if most := int64(4 + took/tick); failures > most {
			t.Errorf("%d failures in %v, want at most %d", failures, took, most)
		}
		full.Store(false)
		must.Await(t, "it is in service", func() bool { return e.Err() == nil })
	})
}

// TestPowerFailureDuringARepair (D2, D4): a sync fails, and the power fails before the manifest
// names the segment that repairs. The segment that was not synced has a torn end, and the
// directory opens with it alone.
func TestPowerFailureDuringARepair(t *testing.T) {
	dir, image := t.TempDir(), t.TempDir()
	var fails, taken atomic.Bool
	f := &hooked{neverSynced, func(o operation, do func() error) error {
		switch {
		case o.kind != stepSync:
		case o.path == segmentPath(dir, 1) && fails.Swap(false):
			return syscall.EIO
		case o.path == segmentPath(dir, 2) && !taken.Load():
			if info, err := os.Stat(o.path); err == nil && info.Size() > headerSize {
				if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
					t.Error(err)
				}
				taken.Store(true)
			}
		}
		return do()
	}}
	e := open(t, dir, SyncEvery(time.Hour), withFiles(f))
	l := newLimiter(t, e, daily)
	var starts []int64
	for range 3 {
		starts = append(starts, e.log.size())
		must.Get(l.Allow(ctx, weir.K("ann")))(t)
	}
	fails.Store(true)
	e.keeper.now <- struct{}{}
	must.Await(t, "the second segment is written", taken.Load)

	first := must.Get(os.ReadFile(segmentPath(image, 1)))(t)
	clear(first[starts[1]:starts[2]])
	write(t, segmentPath(image, 1), first)
	wantLeft(t, open(t, image), 9)
	if _, err := os.Stat(segmentPath(image, 2)); err == nil {
		t.Error("the segment of the repair is still there")
	}
}
