package weirdisk

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestStartShortensALongLog (D6): a start whose log has grown enough writes a snapshot before it
// answers. Otherwise the log of a program that ends after a moment, again and again, would grow
// for ever.
func TestStartShortensALongLog(t *testing.T) {
	dir := t.TempDir()
	for life := range int64(3) {
		e := open(t, dir, SyncEvery(time.Hour), func(o *options) { o.growth, o.tick = 1<<10, time.Hour })
		if s := e.Stats(); s.Snapshots != min(life, 1) || s.Bytes > 500 {
			t.Errorf("life %d: got %+v, want one snapshot and a short log", life, s)
		}
		granted(t, e, 1)
		l := newLimiter(t, e, weir.Limit{Name: "l", Max: weir.MaxUnits, Window: time.Millisecond})
		for range 200 {
			must.Get(l.Allow(ctx, weir.K()))(t)
		}
		must.Do(t, e.Close())
	}
	wantLeft(t, open(t, dir), 7)
}
