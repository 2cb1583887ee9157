// Package weirdisk is an engine for limits that survive a restart, without a server.
//
//	engine, err := weirdisk.Open("/var/lib/weir")
//	if err != nil {
//		return err
//	}
//	defer engine.Close()
//	limiter, err := weir.New(policy, weir.WithEngine(engine))
//
// It decides in memory, as weir.Memory does, and writes every change to a log before the
// answer. Callers that wait share one write, and with [SyncAlways] one sync (group commit).
// The next start rebuilds the state from the log.
//
// A grant is in the hands of the operating system before its answer. So the end of the
// process, even by SIGKILL, loses no acknowledged grant in any mode (D1, D2). The comments cite
// the promises D1 to D6 of docs/semantics.md. docs/durability.md lists the possible losses of each
// mode, and docs/disk-format.md the bytes of the files.
//
// # Design
//
// The log holds changes of histories, not requests: the instant, the key, the units. The memory
// engine appends them under the locks of these histories. So the changes of a history are in
// the log in their order. Applying them needs no policy and decides nothing.
// One goroutine writes for all callers that wait, and syncs with SyncAlways.
//
// A segment is a file of the log. A frame in it is a batch of changes, which one write hands over.
//
// A snapshot is a part of the log. It begins a new segment, into which histories are
// written a few at a time, each under its lock, between the changes of callers. Read in
// order, a history from the snapshot replaces the result of earlier entries. So callers
// never stop for a snapshot, and it needs no positions and no second format. Once it is
// durable the segments before are deleted.
//
// The file MANIFEST states which segments must exist, and up to where they are on stable
// storage. So a missing, cut, exchanged or foreign file is an error, not a silent loss. Only
// the end of the last segment may be torn.
//
// While a disk fails (D5), calls fail with [engine.ErrUnavailable] or, if they were decided in
// memory already, [engine.ErrOutcomeUnknown]. Package fallback can decide during that time. The
// engine begins a new segment with a whole snapshot as soon as the disk accepts one: a repair.
//
// # Files
//
//   - weirdisk.go: Open; and Do, which decides in memory and waits for the log
//   - writer.go: the log, its batches, and the goroutine that writes them
//   - entry.go: the bytes of a change
//   - segment.go: the bytes of segments, of their frames and of MANIFEST
//   - snapshot.go: the keeper, which takes snapshots, deletes segments and repairs the log
//   - load.go, dump.go: reading a directory, for Open and for tools
//   - documents.go: the file of operators' documents
//   - files.go, sync_*.go, lock_*.go: the operating system
//
// # Alternatives
//
// A memory engine forgets at the end of the process. Redis serves several processes. An
// embedded database syncs as fast only for large batches, and takes three to ten times the
// bytes. Of the libraries for logs that bench/disk measures, none groups commits at our rate
// and separates a torn end from damage.
package weirdisk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/memory"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/internal/option"
)

var (
	// ErrInUse: another process has the directory. The error names the process.
	ErrInUse = errors.New("weirdisk: the directory is in use")

	// errAccess: others can replace files of the directory.
	errAccess = errors.New("others can change its files")

	// errClosed is the reason of calls after Close.
	errClosed = errors.New("the engine is closed")
)

// Engine is a durable engine in a directory, made with Open. It is safe for concurrent use, and the
// directory must be on a local disk. Every call of the zero or nil Engine is an
// [engine.InputError]; it is empty, and Close and Err return that error, too.
type Engine struct {
	memory *memory.Memory
	log    *log
	cut    Cut
	keeper *keeper

	documents     *documents.Store
	documentsFile documentsFile
	identity      string // the directory's

	closing func() error   // close, once
	stop    chan struct{}  // ends the helpers
	helpers sync.WaitGroup // the keeper, and the syncer
	writer  sync.WaitGroup // ends last, once log.wake is closed
}

var _ engine.Engine = (*Engine)(nil)

const constructor = "weirdisk.Open"

// errZero is the error of the zero and the nil Engine.
var errZero = misuse.Error(context.Background(), constructor)

// isZero reports whether Open has not made the engine.
func (e *Engine) isZero() bool { return e == nil || e.log == nil }

// Option sets one property of an [Engine] that [Open] makes. A nil Option changes nothing.
type Option func(*config)

type config struct {
	sync      time.Duration  // time between syncs, or syncAlways
	memory    memory.Options // caps of the memory engine
	anyAccess bool
	progress  func(done, total int64)
	files     files
	growth    int64         // bytes after which a snapshot follows
	tick      time.Duration // interval of the keeper
}

const syncAlways time.Duration = 0
const defaultSync = 100 * time.Millisecond

// SyncAlways has each change on stable storage before its answer. A power failure loses nothing
// that was acknowledged. It replaces an earlier [SyncEvery]. Default: SyncEvery(100 *
// time.Millisecond).
func SyncAlways() Option { return func(c *config) { c.sync = syncAlways } }

// SyncEvery writes each change before its answer, and syncs every d; less than a millisecond is
// taken for one. A power failure may lose the changes of the last d. It replaces an earlier
// [SyncAlways]. Default: 100ms.
func SyncEvery(d time.Duration) Option {
	return func(c *config) { c.sync = max(d, time.Millisecond) }
}

// AnyAccess accepts a directory in which other users can change histories: another user but root
// owns it, or all users can write there. Default: Open returns an error for it.
func AnyAccess() Option { return func(c *config) { c.anyAccess = true } }

// Progress calls f from time to time during Open, with the bytes of the log that are read and the
// bytes in all. Default, also for nil: no function.
func Progress(f func(done, total int64)) Option { return func(c *config) { c.progress = f } }

// MaxKeys caps the number of keys, as weir.MaxKeys does. Open fails unless the histories of the
// directory that still count fit the cap. Until Open returns, histories of the log that no longer
// count may exceed it. Default, also for 0 or less: no cap.
func MaxKeys(n int) Option { return func(c *config) { c.memory.MaxKeys = int64(max(n, 0)) } }

// MaxBytes caps the memory of histories, as weir.MaxBytes does. For Open it is like MaxKeys.
// Default, also for 0 or less: no cap.
func MaxBytes(n int64) Option { return func(c *config) { c.memory.MaxBytes = max(n, 0) } }

// Open opens the engine in a directory, or makes a new one there. It returns once all
// histories are in memory.
//
// The errors are ErrInUse, a *FormatError for a file that cannot be read, and those of the
// operating system. After an error the histories are as before. An end of the log that was written
// only in part is cut; Recovery describes it.
func Open(dir string, opts ...Option) (*Engine, error) {
	o := config{sync: defaultSync, files: system{}, growth: minGrowth, tick: keeperTick}
	option.Apply(&o, opts)
	dir, lock, err := claim(dir, true, o.anyAccess)
	if err != nil {
		return nil, openError(dir, err)
	}
	l := newLog(o.files, dir, o.sync)
	k := &keeper{
		log:    l,
		lock:   lock,
		now:    make(chan struct{}, 1),
		growth: o.growth,
		tick:   o.tick,
	}
	e := &Engine{log: l, keeper: k, stop: make(chan struct{})}
	e.closing = sync.OnceValue(e.close)
	if err := e.start(&o); err != nil {
		close(l.wake)
		lock.Close()
		return nil, openError(dir, err)
	}
	return e, nil
}

// dirLock is the locked files that keep other processes out of a directory. The first one is
// the directory.
type dirLock []*os.File

// Close releases the directory.
func (l dirLock) Close() (err error) {
	for _, f := range l {
		err = errors.Join(err, f.Close())
	}
	return err
}

// claim checks whether a directory can be used, and locks it. With create it makes the directory
// and the lock file if they are missing. The path that it returns stays right if the process
// changes its working directory.
func claim(dir string, create, anyAccess bool) (path string, lock dirLock, err error) {
	if dir == "" {
		return "", nil, errors.New("weirdisk: the name of the directory is empty; give its path")
	}
	if path, err = filepath.Abs(dir); err != nil {
		return dir, nil, err
	}
	if create {
		err = os.MkdirAll(path, 0o700)
	}
	if err == nil {
		_, err = list(path)
	}
	if err == nil && create {
		err = checkAccess(path, anyAccess)
	}
	if err == nil {
		lock, err = lockDir(path, create)
	}
	return path, lock, err
}

// openError adds the directory and the next step to an error of the operating system.
func openError(dir string, err error) error {
	if dir == "" || errors.As(err, new(*FormatError)) || errors.Is(err, ErrInUse) {
		return err
	}
	return fmt.Errorf("weirdisk: %s: %w%s", dir, err, nextStep(err, ""))
}

// nextStep returns the next step after an error, behind a semicolon, or otherwise if none is
// known.
func nextStep(err error, otherwise string) string {
	for _, known := range nextSteps {
		if errors.Is(err, known.cause) {
			return "; " + known.step
		}
	}
	return otherwise
}

var nextSteps = []struct {
	cause error
	step  string
}{
	{fs.ErrPermission, "the process must be able to write there"},
	{syscall.EROFS, "mount it writable, or use another directory"},
	{syscall.ENOSPC, "free some space there, or use another directory"},
	{syscall.ENOTDIR, "a file stands in its place; use another directory"},
	{fs.ErrNotExist, "is the path right?"},
	{errIrregular, "put a file of its own there, not a symbolic link"},
	{errAccess, "correct owner and mode, or allow any access"},
	{errNoStore, "the first start of an engine there makes it"},
	{errNewer, "use the newer program, or another directory"},
	{errOlder, "use an empty directory; weir store check reports whether a directory can be used"},
	{errDocuments, "restore it from a backup, or move it away to begin without its overrides"},
	{errForeign, "a store is a directory of its own, empty at first"},
}

// start loads the directory and starts the goroutines.
func (e *Engine) start(o *config) error {
	l := e.log
	o.memory.Journal = l
	c, err := load(o, l.dir)
	if err != nil {
		return err
	}
	if err := e.resumeDocuments(&c.documentsFile); err != nil {
		return err
	}
	e.memory, e.cut = c.decoder.memory, c.cut
	e.keeper.memory, e.keeper.manifest = e.memory, c.manifest
	l.accepts = true
	e.writer.Go(l.run)
	if err := e.keeper.resume(c); err != nil {
		e.documentsFile.end()
		return err
	}
	e.identity = e.keeper.manifest.Identity
	e.documents = c.documents
	e.documents.Save = e.saveDocument
	// A process that is killed soon after each start may never complete a snapshot beside its
	// callers. So a snapshot that is due is completed before them.
	if e.keeper.due() {
		e.keeper.snapshot()
	}
	if l.mode > 0 {
		e.helpers.Go(func() { l.runSyncer(e.stop) })
	}
	e.helpers.Go(func() { e.keeper.run(e.stop) })
	return nil
}

// Close writes and syncs the rest, ends all goroutines and releases the directory. Calls
// after it fail with [engine.ErrUnavailable], except peeks and counts, which read memory. The
// error is that of the last write or sync.
func (e *Engine) Close() error {
	if e.isZero() {
		return errZero
	}
	return e.closing()
}

func (e *Engine) close() error {
	l := e.log
	l.endService()
	e.documents.WithLock(func(all func() []documents.Stored) {
		close(e.stop)
		e.endDocuments(all)
	})
	e.helpers.Wait()
	close(l.wake)
	e.writer.Wait()
	_, err := l.sync()
	if err = cmp.Or(l.cause, err); err == nil {
		err = e.keeper.finish()
	}
	err = errors.Join(err, l.segment.file.Close(), e.keeper.lock.Close())
	if err != nil {
		return fmt.Errorf("weirdisk: closing %s failed: %w", l.dir, err)
	}
	return nil
}

// Do decides calls in their order. It returns once the changes of all calls are written, and
// with SyncAlways synced: the calls wait together. If that fails, every call that changed
// something has the error. Peeks, counts and denials that begin no block wait for nothing.
func (e *Engine) Do(ctx context.Context, calls []engine.Call) {
	if e.isZero() || ctx == nil {
		misuse.Fail(ctx, calls, constructor)
		return
	}
	service, err := e.log.enter()
	for i := range calls {
		if c := &calls[i]; err != nil && c.Err == nil && mayChange(c) {
			c.Fail(err)
		}
	}
	e.memory.Do(ctx, calls)
	waited := false
	for i := range calls {
		c := &calls[i]
		if c.Err != nil || !changed(c) {
			continue
		}
		if !waited {
			waited, err = true, e.log.wait(ctx, service)
		}
		if err != nil {
			c.Fail(err)
		}
	}
}

// mayChange reports whether the call may change something, so that it needs the log.
func mayChange(c *engine.Call) bool {
	switch c.Op {
	case engine.Peek, engine.Count:
		return false
	case engine.Probe:
		return c.N > 0 && slices.ContainsFunc(c.Rules.Limits, hasBlock)
	case engine.Attempt, engine.Record, engine.Refund:
		return c.N > 0
	}
	return true
}

func hasBlock(l engine.Limit) bool { return l.Block > 0 }

// changed reports whether the call waits for the log. A denial does if it has begun a block: then
// its Blocked is the whole Block of a limit.
func changed(c *engine.Call) bool {
	denied := c.Op == engine.Attempt && c.Result.Granted == 0 && c.Result.Blocked > 0
	if c.Op == engine.Probe || denied {
		rest := c.Result.Blocked.Microseconds()
		begun := func(l engine.Limit) bool { return l.Block > 0 && l.Block == rest }
		return slices.ContainsFunc(c.Rules.Limits, begun)
	}
	return changes(c)
}

// changes reports whether a call that has not begun a block has changed a history.
func changes(c *engine.Call) bool {
	switch c.Op {
	case engine.Attempt:
		return c.N > 0 && (c.Result.Granted > 0 || c.Rules.Mode == engine.CountDenied)
	case engine.Record:
		return c.N > 0
	case engine.Refund:
		return c.Result.Granted > 0
	case engine.Extend:
		return c.Result.Allowed
	}
	return c.Op == engine.Settle || c.Op == engine.Reset || c.Op == engine.Block
}

// Err returns the reason why the engine is out of service, such as a full disk, or why its log
// will grow without bound: the directory was moved, or the last snapshot failed. It returns nil
// otherwise.
func (e *Engine) Err() error {
	if e.isZero() {
		return errZero
	}
	err := cmp.Or(e.log.problem(), e.keeper.moved())
	if err == nil {
		return nil
	}
	return fmt.Errorf("weirdisk: %w", err)
}

// Recovery returns the end of the log, or of the file of documents, that Open has cut, with 0 Bytes
// if there was none.
func (e *Engine) Recovery() Cut {
	if e.isZero() {
		return Cut{}
	}
	return e.cut
}

// Stats are counts of the log since Open, and sizes now.
type Stats struct {
	Memory engine.MemoryStats // the histories in memory

	Bytes     int64 // all segments of the log together
	Entries   int64 // changes, and histories of snapshots, that were written
	Batches   int64 // writes of entries
	Syncs     int64
	Snapshots int64
	Failures  int64 // failed writes, syncs and snapshots
}

// Stats returns the counts and sizes; all are 0 for the zero Engine.
func (e *Engine) Stats() Stats {
	if e.isZero() {
		return Stats{}
	}
	now := e.log.counts()
	now.Memory = e.memory.Stats()
	return now
}
