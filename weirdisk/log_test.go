package weirdisk

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestDroppedEntriesAreNotFlushed: a snapshot is not whole if its end was dropped, as by a
// write that failed before the keeper waits for it. The segments before would be deleted.
func TestDroppedEntriesAreNotFlushed(t *testing.T) {
	l, full := newLog(system{}, t.TempDir(), syncAlways), errors.New("full")
	l.accepts = true
	if _, ok := l.add([]memory.Change{{Kind: memory.Remove}}, false); !ok {
		t.Fatal("the log accepts no entry")
	}
	l.fail(full)
	assert.Error(t, l.awaitWritten(), full)
}

// TestFailedSyncStays: the system reports data that it dropped once, and a later sync of the
// segment succeeds. The log does not believe it.
func TestFailedSyncStays(t *testing.T) {
	l, broken := newLog(system{}, t.TempDir(), syncAlways), errors.New("broken")
	f := &syncs{results: []error{broken, nil, nil}}
	l.segment.file = f
	l.end.End = 100
	for range 2 {
		_, err := l.sync()
		assert.Error(t, err, broken)
	}
	l.startSegment(f, &header{number: 2, identity: strings.Repeat("A", idSize)})
	l.end.End = 200
	if _, err := l.sync(); err != nil { // in the next segment
		t.Fatal(err)
	}
}

// syncs is a file whose syncs have these results.
type syncs struct {
	file
	results []error
}

func (f *syncs) sync() error {
	err := f.results[0]
	f.results = f.results[1:]
	return err
}

func (f *syncs) Close() error { return nil }

// TestLagOfManyBytes: a frame behind more unsynced bytes than its lag can state does not
// state that some of them are synced. A torn end would be taken for damage.
func TestLagOfManyBytes(t *testing.T) {
	for _, unsynced := range []int64{0, 1, 1<<32 - 2, 1<<32 - 1, 1 << 32, 1<<32 + 1, 5 << 32} {
		const synced = 1000
		want := int64(synced)
		if unsynced >= math.MaxUint32 {
			want = 0
		}
		assert.Equal(t, syncedBefore(synced+unsynced, lag(synced+unsynced, synced)), want, "%d bytes unsynced: the bytes that are synced by the batch", unsynced)
	}
}

// TestNothingIsNoBatch: a change may add nothing to the log, such as a limit with a time that
// the log has already. Then no batch without entries is written, because a start would take it
// for damage. Two callers that use a longer window first make such a change.
func TestNothingIsNoBatch(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := open(t, dir, mode)
			for i := range int64(4) {
				at := time.Now().UnixMicro()
				e.log.Append([]memory.Change{{Kind: memory.Append, Limit: 1, Name: "p\x00l\x00Rolling\x00user", Keep: 60_000_000, Key: []byte("ann"), At: at, End: at, Cutoff: at - 60_000_000, Units: 1 + i}})
				e.log.Append([]memory.Change{{Kind: memory.Retain, Limit: 1, Name: "p\x00l\x00Rolling\x00user", Keep: 60_000_000}})
				must.Do(t, e.log.awaitWritten())
			}
			must.Do(t, e.Close())
			e = open(t, dir, mode)
			if cut := e.Recovery(); cut.Bytes != 0 || e.Stats().Memory.Keys != 1 {
				t.Errorf("%d histories, and this was cut: %+v", e.Stats().Memory.Keys, cut)
			}
		})
	}
}

// TestStartShortensALongLog (D6): a start whose log has grown enough writes a snapshot before it
// answers. Otherwise the log of a program that ends after a moment, again and again, would grow
// for ever.
func TestStartShortensALongLog(t *testing.T) {
	dir := t.TempDir()
	for life := range int64(3) {
		e := open(t, dir, SyncEvery(time.Hour), func(c *config) { c.growth, c.tick = 1<<10, time.Hour })
		if s := e.Stats(); s.Snapshots != min(life, 1) || s.Bytes > 500 {
			t.Errorf("life %d: got %+v, want one snapshot and a short log", life, s)
		}
		granted(t, e, 1)
		l := newLimiter(t, e, weir.Limit{Name: "l", Max: weir.MaxUnits, Window: time.Millisecond})
		for range 200 {
			mustAllow(t, l, weir.K())
		}
		must.Do(t, e.Close())
		time.Sleep(2 * time.Millisecond) // a start within the window would keep its grants
	}
	wantLeft(t, open(t, dir), 7)
}
