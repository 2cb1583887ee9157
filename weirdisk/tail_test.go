package weirdisk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// copied returns a copy of a directory in use, as the end of the process leaves it.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, content := range fileContents(t, dir) {
		name, b, _ := strings.Cut(content, "\x00")
		write(t, filepath.Join(to, name), []byte(b))
	}
	write(t, filepath.Join(to, lockName), nil)
	return to
}

// inTail returns the copy of a directory with some grants in its tail, and the bytes of its last
// chunk behind each of them. In a bubble of synctest no time passes, so nothing flushes the tail.
func inTail(t *testing.T, grants int) (dir string, ends []int) {
	t.Helper()
	e := open(t, t.TempDir(), SyncOff())
	l := newLimiter(t, e, daily)
	synctest.Wait()
	for range grants {
		if _, err := l.Allow(ctx, weir.K("ann")); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(e.log.full))
	}
	needs.Have(t, "a shared mapping of files", e.log.tail != nil, "run the test on Linux")
	return copied(t, e.log.dir), ends
}

// TestTailSurvivesAKill (D2): changes that are only in the tail are restored in every mode, once.
func TestTailSurvivesAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, _ := inTail(t, 3)
		for name, mode := range modes {
			after := copied(t, dir)
			for life := range int64(3) {
				e := open(t, after, mode)
				synctest.Wait()
				if e.Recovery().Bytes != 0 {
					t.Errorf("%s, life %d: %+v was cut", name, life, e.Recovery())
				}
				if d, err := newLimiter(t, e, daily).Allow(ctx, weir.K("ann")); err != nil || d.Remaining != 6-life {
					t.Errorf("%s, life %d: got %v, %v, want %d left", name, life, d, err, 6-life)
				}
				if life > 0 {
					e.Close()
					continue
				}
				after = copied(t, after) // another kill
				e.Close()
			}
			if _, err := os.Stat(filepath.Join(after, tailName)); err == nil {
				t.Errorf("%s: a closed directory has a tail", name)
			}
		}
	})
}

// TestTailWithAGap: a power failure may lose pages of the tail. Its changes count up to there,
// and the rest is cut and reported.
func TestTailWithAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ends := inTail(t, 4)
		after := copied(t, dir)
		path := filepath.Join(after, tailName)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := (tailChunks-1)*chunkSize + chunkHeader
		clear(b[at+ends[1] : at+ends[2]])
		write(t, path, b)
		next := open(t, after)
		if got, want := next.Recovery(), (Cut{segmentPath(after, 1), headerSize + int64(ends[1]), int64(ends[3] - ends[1])}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if d, err := newLimiter(t, next, daily).Peek(ctx, weir.K("ann"), 1); err != nil || d.Remaining != 8 {
			t.Errorf("got %v, %v, want 8 left", d, err)
		}
	})
}

// TestDamagedTail: bytes that are no tail of the directory change nothing.
func TestDamagedTail(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	if _, err := newLimiter(t, e, daily).Allow(ctx, weir.K("ann")); err != nil {
		t.Fatal(err)
	}
	e.Close()
	for _, b := range [][]byte{{}, {1}, make([]byte, 100), []byte("TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL TAIL ")} {
		write(t, filepath.Join(dir, tailName), b)
		e := open(t, dir)
		if d, err := newLimiter(t, e, daily).Peek(ctx, weir.K("ann"), 1); err != nil || d.Remaining != 9 || e.Recovery().Bytes != 0 {
			t.Errorf("%q: got %v, %v, want 9 left", b, d, err)
		}
		e.Close()
	}
}

// TestEmbeddedEngineDecides: a limiter on a type that embeds an engine calls the Do of that type.
func TestEmbeddedEngineDecides(t *testing.T) {
	e := &counting{Engine: open(t, t.TempDir())}
	if _, err := newLimiter(t, e, daily).Allow(ctx, weir.K("ann")); err != nil || e.calls != 1 {
		t.Errorf("got %d calls of Do, %v, want 1", e.calls, err)
	}
}

type counting struct {
	*Engine
	calls int
}

func (c *counting) Do(ctx context.Context, calls []engine.Call) {
	c.calls += len(calls)
	c.Engine.Do(ctx, calls)
}

// TestOldTailIsGoneForGood: a start removes the tail of the process before, durably, before it
// stores a change. After a power failure its batches would stand at the places of others.
func TestOldTailIsGoneForGood(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, lockName), nil)
	write(t, filepath.Join(dir, tailName), []byte("old"))
	x := new(tape)
	e := open(t, dir, SyncOff(), withFiles(x.under(system{})))
	if _, err := newLimiter(t, e, daily).Allow(ctx, weir.K("ann")); err != nil {
		t.Fatal(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	stored := slices.IndexFunc(x.steps, func(s step) bool { return s.kind == stepStore })
	removed := slices.IndexFunc(x.steps, func(s step) bool { return s.kind == stepRemove && s.name == tailName })
	if stored < 0 {
		stored = len(x.steps) // this system maps no files
	}
	if removed < 0 || removed > stored || !x.durable(stored)[removed] {
		t.Errorf("the old tail was removed in step %d, durable before step %d: want both", removed, stored)
	}
}

// TestTailOutlivesAFailedWrite (D2): changes that could not be written to the segment stay in the
// tail until a whole snapshot has them, also while attempts at one fail.
func TestTailOutlivesAFailedWrite(t *testing.T) {
	var full atomic.Bool
	failures, held, resume := 0, make(chan bool), make(chan bool)
	f, dir := &unfit{write: func(_ string, b []byte) error {
		if !full.Load() || bytes.HasPrefix(b, []byte(magic)) {
			return nil
		}
		if failures++; failures == 4 { // some repairs have failed; during one no file comes or goes
			held <- true
			<-resume
		}
		return syscall.ENOSPC
	}}, t.TempDir()
	e := open(t, dir, SyncOff(), withFiles(f), func(o *options) { o.tick = 10 * time.Millisecond })
	l := newLimiter(t, e, daily)
	full.Store(true)
	granted := int64(0)
	for range 3 {
		if _, err := l.Allow(ctx, weir.K("ann")); err == nil {
			granted++
		}
	}
	<-held
	after := open(t, copied(t, dir))
	close(resume)
	if d, err := newLimiter(t, after, daily).Peek(ctx, weir.K("ann"), 1); err != nil || d.Remaining > 10-granted {
		t.Errorf("got %v, %v, want at most %d left", d, err, 10-granted)
	}
	full.Store(false)
	eventually(t, "it is in service", func() bool { return e.Err() == nil })
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	if x := e.log.tail; x == nil || len(x.free) < tailChunks-1 || x.kept {
		t.Errorf("got %+v, want all chunks free but one", x)
	}
}

// TestCloseKeepsTheTail: the last write fails during Close. The error tells it, and the next start
// has the changes.
func TestCloseKeepsTheTail(t *testing.T) {
	f, dir := &faulty{}, t.TempDir()
	e := open(t, dir, SyncOff(), withFiles(f))
	f.creates.Store(true)
	f.writes.Store(true)
	if d, err := newLimiter(t, e, daily).Allow(ctx, weir.K("ann")); err != nil || d.Remaining != 9 {
		t.Fatal(d, err)
	}
	if err := e.Close(); err == nil || !strings.Contains(err.Error(), tailName) {
		t.Errorf("got %v, want an error with the name of the tail", err)
	}
	if d, err := newLimiter(t, open(t, dir), daily).Peek(ctx, weir.K("ann"), 1); err != nil || d.Remaining != 9 {
		t.Errorf("got %v, %v, want 9 left", d, err)
	}
}

// TestCloseLeavesPartsOfTheLastWrite: the last write fails behind two of three changes, during
// Close. The two stay in the segment, since a power failure may lose the tail.
func TestCloseLeavesPartsOfTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []int
		f, dir := &unfit{}, t.TempDir()
		f.write = func(path string, b []byte) error {
			if len(ends) < 3 {
				return nil
			}
			segment, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, append(segment[:headerSize], b[:ends[2]-1]...), 0o600)
			}
			return errors.Join(err, syscall.ENOSPC)
		}
		e := open(t, dir, SyncOff(), withFiles(f))
		l := newLimiter(t, e, daily)
		synctest.Wait()
		for range 3 {
			if _, err := l.Allow(ctx, weir.K("ann")); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, len(e.log.full))
		}
		needs.Have(t, "a shared mapping of files", e.log.tail != nil, "run the test on Linux")
		if err := e.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v, want %v", err, syscall.ENOSPC)
		}
		if err := os.Remove(filepath.Join(dir, tailName)); err != nil {
			t.Fatal(err)
		}
		if d, err := newLimiter(t, open(t, dir), daily).Peek(ctx, weir.K("ann"), 1); err != nil || d.Remaining != 8 {
			t.Errorf("got %v, %v, want 8 left", d, err)
		}
	})
}

// TestCloseOutOfService: a sync has failed, and so do all repairs. Close returns an error.
func TestCloseOutOfService(t *testing.T) {
	f, dir := &unfit{}, t.TempDir()
	first := segmentPath(dir, 1)
	var fails atomic.Bool
	f.sync = func(path string) error {
		if path == first && fails.Load() {
			return syscall.EIO
		}
		return nil
	}
	f.write = func(path string, b []byte) error {
		if path != first && fails.Load() && !bytes.HasPrefix(b, []byte(magic)) {
			return syscall.ENOSPC
		}
		return nil
	}
	e := open(t, dir, SyncOff(), withFiles(f), func(o *options) { o.tick = time.Millisecond })
	if _, err := newLimiter(t, e, daily).Allow(ctx, weir.K("ann")); err != nil {
		t.Fatal(err)
	}
	fails.Store(true)
	e.keeper.now <- struct{}{}
	eventually(t, "a repair fails", func() bool { return e.Stats().Failures >= 2 })
	if err := e.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
}

// TestCloseDuringARepair: a repair has made all changes durable when Close begins, and ends after
// it. So Close has no error, and the tail is gone.
func TestCloseDuringARepair(t *testing.T) {
	f, dir := &unfit{}, t.TempDir()
	var fails atomic.Bool
	syncs, held, resume := 0, make(chan bool), make(chan bool)
	f.write = func(path string, b []byte) error {
		if path == segmentPath(dir, 1) && fails.Load() {
			return syscall.ENOSPC
		}
		return nil
	}
	f.sync = func(path string) error {
		if path != segmentPath(dir, 1) && strings.HasSuffix(path, suffix) && fails.Load() {
			if syncs++; syncs == 2 { // of the snapshot
				held <- true
				<-resume
			}
		}
		return nil
	}
	e := open(t, dir, SyncOff(), withFiles(f))
	l := newLimiter(t, e, daily)
	fails.Store(true)
	granted := int64(0)
	for range 3 {
		if _, err := l.Allow(ctx, weir.K("ann")); err == nil {
			granted++
		}
	}
	e.log.request()
	<-held
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	eventually(t, "the log is closed", func() bool {
		e.log.mu.Lock()
		defer e.log.mu.Unlock()
		return e.log.closed
	})
	close(resume)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, tailName)); err == nil {
		t.Error("there is a tail")
	}
	if d, err := newLimiter(t, open(t, dir), daily).Peek(ctx, weir.K("ann"), 1); err != nil || d.Remaining > 10-granted {
		t.Errorf("got %v, %v, want at most %d left", d, err, 10-granted)
	}
}

// TestNoChunkDuringARepair: a repair that fails has overwritten no chunk of the tail.
func TestNoChunkDuringARepair(t *testing.T) {
	l := newLog()
	l.tail = newTail(system{}, t.TempDir(), 4<<10)
	needs.Have(t, "a shared mapping of files", l.tail != nil, "run the test on Linux")
	defer l.tail.region.Close()
	l.service.Store(1)
	if l.fill(100) != nil {
		t.Error("a log out of service begins a chunk")
	}
	l.service.Store(2)
	if l.fill(100) == nil {
		t.Error("a log in service begins none")
	}
}

// TestNoAnswerBeforeAHeldBatch (D1): a snapshot begins while a batch with a change waits for the
// writer. The caller waits until that batch is written.
func TestNoAnswerBeforeAHeldBatch(t *testing.T) {
	f, held := &faulty{}, make(chan struct{})
	e := open(t, t.TempDir(), SyncOff(), withFiles(f), func(o *options) { o.chunk = 0 })
	l := e.log
	f.hang.Store(&held)
	change := func() {
		l.Append([]memory.Change{{Kind: memory.Remove, Name: "p\x00daily\x00Rolling\x00user", Keep: 1, Key: []byte("ann")}})
	}
	change()
	eventually(t, "the writer writes the first batch", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.writing != nil
	})
	change()
	f.hang.Store(nil)
	if err := l.begin(header{number: 9, previous: 1}); err != nil {
		t.Error(err)
	}
	l.mu.Lock()
	first := l.writing.finished()
	second := l.queue[0]
	l.mu.Unlock()
	hang := make(chan struct{})
	f.hang.Store(&hang)
	close(held)
	<-first
	if second.changed && !l.waiting.Load() {
		t.Error("a change is in memory only, and its caller does not wait")
	}
	f.hang.Store(nil)
	close(hang)
}

// TestNoAnswerBeforeTheBatchBefore (D1): a change in the tail does not count without the batch
// before it. So callers wait while the writer writes one that is not in the tail.
func TestNoAnswerBeforeTheBatchBefore(t *testing.T) {
	l := newLog()
	l.mode = syncOff
	if !l.end(0) || l.waiting.Load() {
		t.Fatal("an entry without a caller makes callers wait")
	}
	if l.take(); !l.waiting.Load() {
		t.Error("callers do not wait")
	}
}

// TestSyncsCoverTheTail (D2): with SyncEvery a change in the tail is soon in the segment and synced.
func TestSyncsCoverTheTail(t *testing.T) {
	e := open(t, t.TempDir(), SyncEvery(time.Millisecond), func(o *options) { o.tick = time.Hour })
	l := newLimiter(t, e, daily)
	for range 3 { // the keeper may write the first
		before := e.log.synced.Load()
		if _, err := l.Allow(ctx, weir.K("ann")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the change is synced", func() bool { return e.log.synced.Load() > before })
	}
}
