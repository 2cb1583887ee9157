package weirdisk

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// images is the number of images of TestImages and of TestDamagedImages.
var images = flag.Int("weirdisk.images", 300, "the `number` of directory images; make images makes 10,000")

// recorded runs callers on an engine and returns the tape of its file operations. Above the
// tape is a layer, if there is one. Then calls may fail. With lives above 1 the process is
// killed at a random step, and another one goes on.
func recorded(t *testing.T, mode string, r *rand.Rand, lives int, layer func(*tape) files) *tape {
	t.Helper()
	x := new(tape)
	dir := t.TempDir()
	for i := range lives {
		if i > 0 {
			dir = filepath.Join(t.TempDir(), "next")
			most := len(x.steps)
			if r.IntN(2) == 0 { // during the first Open
				most = min(most, 12)
			}
			must.Do(t, x.kill(dir, r.IntN(most+1)))
		}
		x.live(t, dir, mode, r, layer)
	}
	return x
}

// live adds the life of one process to the tape.
func (t *tape) live(test *testing.T, dir, mode string, r *rand.Rand, layer func(*tape) files) {
	test.Helper()
	on := t.under(neverSynced) // the tape has the syncs
	if layer != nil {
		on = layer(t)
	}
	e, err := openEngine(dir, mode, on, snapshotsEvery(1<<10))
	if err != nil {
		if layer == nil {
			test.Fatal(err)
		}
		return
	}
	limiters, err := limitersOn(e)
	if err != nil {
		test.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 4 {
		c := &caller{index: uint16(i), journal: t, engine: e, limiters: limiters, random: rand.New(rand.NewPCG(r.Uint64(), 0))}
		all.Go(func() {
			for range 40 {
				if err := c.step(); err == nil {
					continue
				} else if layer == nil || !errors.Is(err, weir.ErrUnavailable) && !errors.Is(err, weir.ErrOutcomeUnknown) {
					test.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	if err := e.Close(); err != nil && layer == nil {
		test.Error(err)
	}
}

// ledger adds up the events before the crash. Those before safe cannot be lost.
func (t *tape) ledger(crash, safe int) *ledger {
	l := newLedger()
	for i := range crash {
		if e := t.steps[i].mark; e != nil {
			l.add(e, i < safe)
		}
	}
	return l
}

// compare opens an image and compares its state. A rejection is an error of open.
func (l *ledger) compare(t *testing.T, dir, mode string) (problems []string, err error) {
	t.Helper()
	e, err := openEngine(dir, mode, nil, light)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	limiters, err := limitersOn(e)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, limiters.observed(l.observe))
	for _, call := range l.repeatable() {
		if call.Op == reserve && len(l.problems) == 0 {
			x := &caller{journal: l, engine: e, limiters: limiters, random: rand.New(rand.NewPCG(0, 0))}
			must.Do(t, x.operate(call)) // its answer describes the reservation
		}
	}
	return l.problems, nil
}

// TestImages: a power failure at any instant loses unsynced writes, in any order and in
// parts. The directory opens, has all that the mode promises, and invents nothing. In half
// of the images writes and syncs have failed before, and in two thirds the process was
// killed once or twice.
func TestImages(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	lossy, removed, failures := 0, 0, 0
	for done := 0; done < *images; done += 25 {
		mode := []string{"always", "100ms"}[done/50%2] // each with faults of the disk, and without
		var layer func(*tape) files
		if done/25%2 == 0 {
			layer = func(x *tape) files { return x.flaky(rand.New(rand.NewPCG(r.Uint64(), 0)), &failures) }
		}
		x := recorded(t, mode, r, 1+r.IntN(3), layer)
		if len(x.steps) == 0 { // the first operation failed
			continue
		}
		for i := range x.steps {
			if x.steps[i].kind == stepRemove {
				removed++
			}
		}
		for range 25 {
			problems, some := x.crash(t, mode, r)
			if len(problems) > 0 {
				t.Fatalf("seed %d, image %d: %q", seed, done, problems)
			}
			if some {
				lossy++
			}
		}
	}
	t.Logf("seed %d: %d images, %d of them may lack acknowledged changes; %d segments were deleted after snapshots, and %d operations failed before",
		seed, *images, lossy, removed, failures)
	if lossy == 0 || removed == 0 || failures == 0 {
		t.Error("want some of each")
	}
}

// TestImagesFindWrongEngines: the comparison of TestImages finds an engine that does not
// sync, and one that does not sync the directory.
func TestImagesFindWrongEngines(t *testing.T) {
	for name, kind := range map[string]stepKind{"files": stepSync, "directory": stepSyncDir} {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		x := recorded(t, "always", r, 1, func(x *tape) files { return unsynced(x.under(neverSynced), kind) })
		found := 0
		for range 50 {
			if problems, _ := x.crash(t, "always", r); len(problems) > 0 {
				found++
			}
		}
		if found == 0 {
			t.Errorf("seed %d: no sync of the %s, and 50 images without a problem", seed, name)
		}
	}
}

// crash compares one image, and reports whether it may lack acknowledged changes.
func (t *tape) crash(test *testing.T, mode string, r *rand.Rand) (problems []string, lossy bool) {
	test.Helper()
	crash, d := 1+r.IntN(len(t.steps)), damage(r.IntN(int(damages)))
	if r.IntN(5) == 0 { // behind the last Close, or its failure
		crash = len(t.steps)
	}
	dir := filepath.Join(test.TempDir(), "image")
	defer os.RemoveAll(dir)
	must.Do(test, t.image(dir, crash, d, r))
	safe := crash
	if mode != "always" {
		safe = t.guaranteed(crash, t.durable(crash))
	}
	problems, err := t.ledger(crash, safe).compare(test, dir, mode)
	if err != nil {
		problems = append(problems, err.Error())
	}
	if len(problems) > 0 {
		problems = append(problems, fmt.Sprintf("mode %s, crash before step %d of %d, damage %d: %s", mode, crash, len(t.steps), d, listing(dir)))
	}
	return problems, safe < crash
}

// rejection is the form of the error of a damaged directory: it names file and offset.
var rejection = regexp.MustCompile(`([0-9]+\.weirlog|MANIFEST), offset [0-9]+: `)

// spoiledImages spoils directories. Each is rejected with file and offset and not changed, or it
// has a state from before the crash with all changes before safe.
func spoiledImages(t *testing.T, spoil func(x *tape, dir string, crash int, r *rand.Rand) (kind string, safe int)) (rejected map[string]int) {
	needs.Time(t)
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	rejected, opened := map[string]int{}, map[string]int{}
	dir := filepath.Join(t.TempDir(), "image")
	for done := 0; done < *images; {
		x := recorded(t, "always", r, 1, nil)
		for range 25 {
			crash := len(x.steps)
			if r.IntN(2) == 0 { // before the end; a directory that was closed has no end to be torn
				crash = 1 + r.IntN(crash)
			}
			os.RemoveAll(dir)
			must.Do(t, x.image(dir, crash, kept, r))
			before := fileContents(t, dir)
			kind, safe := spoil(x, dir, crash, r)
			spoiled := fileContents(t, dir)
			if slices.Equal(spoiled, before) {
				continue
			}
			done++
			problems, err := x.ledger(crash, safe).compare(t, dir, "always")
			switch {
			case err == nil:
				opened[kind]++
			case errors.As(err, new(*FormatError)) && rejection.MatchString(err.Error()):
				rejected[kind]++
			default:
				problems = append(problems, err.Error()+"; want a FormatError with file and offset")
			}
			if err != nil && !slices.Equal(fileContents(t, dir), spoiled) {
				problems = append(problems, "the rejected directory was changed")
			}
			if len(problems) > 0 {
				t.Fatalf("seed %d, crash before %d of %d, %s: %q; %s", seed, crash, len(x.steps), kind, problems, listing(dir))
			}
		}
	}
	t.Logf("seed %d: rejected %v, opened %v", seed, rejected, opened)
	return rejected
}

// TestDamagedImages: bits are flipped, sectors lost and files cut. The directory is rejected, or
// holds a state that it once had. If a later batch shows that the damaged one was on stable
// storage, it is rejected or has everything.
func TestDamagedImages(t *testing.T) {
	rejected := spoiledImages(t, func(x *tape, dir string, crash int, r *rand.Rand) (string, int) {
		s := spoil(t, dir, r)
		if crash == len(x.steps) || s.inside && s.end <= x.lastWrite(s.name, crash) {
			return s.kind, crash
		}
		return s.kind, 0
	})
	if len(rejected) < 5 {
		t.Errorf("some damage was never rejected: %v", rejected)
	}
}

// TestMixedDirectories: whole files are missing, empty, exchanged, renamed, of another
// directory or of an earlier time. The directory is rejected, or it has everything.
func TestMixedDirectories(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	other := filepath.Join(t.TempDir(), "other")
	y := recorded(t, "always", r, 1, nil)
	must.Do(t, y.image(other, len(y.steps), kept, r))
	rejected := spoiledImages(t, func(x *tape, dir string, crash int, r *rand.Rand) (string, int) {
		return x.mix(t, dir, other, crash, r), crash
	})
	if len(rejected) < 7 {
		t.Errorf("some damage was never rejected: %v", rejected)
	}
}

// lastWrite returns the offset of the last write to a file before a step.
func (t *tape) lastWrite(name string, crash int) (at int64) {
	file := 0
	for _, s := range t.steps[:crash] {
		switch {
		case s.kind == stepCreate && s.name == name:
			file, at = s.file, 0
		case s.kind == stepWrite && s.file == file:
			at = s.at
		}
	}
	return at
}

// spoiled is damage of a file.
type spoiled struct {
	name       string
	start, end int64
	kind       string
	inside     bool // bytes before start and behind end are unchanged, those between are not
}

// spoil damages a segment of a directory.
func spoil(t *testing.T, dir string, r *rand.Rand) (s spoiled) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(path string) bool { // one that was created just before the crash
		info, err := os.Stat(path)
		return err == nil && info.Size() == 0
	})
	if len(files) == 0 { // before the first one
		return s
	}
	path := files[r.IntN(len(files))]
	b := fileBytes(t, path)
	old := slices.Clone(b)
	at := r.IntN(len(b))
	s = spoiled{name: filepath.Base(path), start: int64(at), end: int64(len(b))}
	switch r.IntN(5) {
	case 0:
		s.kind, s.end = "a bit is flipped", s.start+1
		b[at] ^= 1 << r.IntN(8)
	case 1:
		end := min(at+1+r.IntN(sector), len(b))
		s.kind, s.end = "zeros", int64(end)
		clear(b[at:end])
	case 2:
		end := min(at+1+r.IntN(sector), len(b))
		s.kind, s.end = "bytes of another place", int64(end)
		copy(b[at:end], old[r.IntN(len(old)):])
	case 3:
		s.kind = "cut"
		b = b[:at]
	case 4:
		s.kind = "random bytes up to the end, and more"
		b = append(b, make([]byte, r.IntN(sector))...)
		for i := at; i < len(b); i++ {
			b[i] = byte(r.Uint32())
		}
	}
	s.inside = len(b) == len(old) && !slices.Equal(b, old)
	write(t, path, b)
	return s
}

// mix changes whole files of a directory.
func (t *tape) mix(test *testing.T, dir, other string, crash int, r *rand.Rand) (kind string) {
	test.Helper()
	files := func(dir, pattern string) []string {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			test.Fatal(err)
		}
		return paths
	}
	read := func(path string) []byte { return fileBytes(test, path) }
	all := append(files(dir, "*"+suffix), files(dir, manifestName)...)
	if len(all) < 2 {
		return "nothing"
	}
	path, last := all[r.IntN(len(all))], all[len(all)-2]
	foreign := files(other, "*"+suffix)[0]
	switch r.IntN(8) {
	case 0:
		kind = "missing"
		if len(all) == 2 && crash < len(t.steps) && path != last {
			return kind // the directory is new, and its segment is not written
		}
		os.Remove(path)
	case 1:
		kind = "empty"
		write(test, path, nil)
	case 2:
		kind = "cut within the header"
		write(test, path, read(path)[:r.IntN(min(headerSize, len(read(path))+1))])
	case 3:
		kind = "exchanged"
		with := all[r.IntN(len(all))]
		a, b := read(path), read(with)
		write(test, path, b)
		write(test, with, a)
	case 4:
		kind = "renamed"
		os.Rename(path, segmentPath(dir, 1+r.Uint64N(9)))
	case 5:
		kind = "the manifest of another directory"
		write(test, all[len(all)-1], read(filepath.Join(other, manifestName)))
	case 6:
		kind = "a segment of another directory"
		write(test, []string{last, segmentPath(dir, 1+r.Uint64N(9))}[r.IntN(2)], read(foreign))
	case 7:
		kind = "an earlier manifest"
		var earlier [][]byte
		names := map[int]string{}
		for _, s := range t.steps[:crash] {
			switch {
			case s.kind == stepCreate:
				names[s.file] = s.name
			case s.kind == stepWrite && names[s.file] == manifestName+".new":
				earlier = append(earlier, s.data)
			}
		}
		write(test, all[len(all)-1], earlier[r.IntN(len(earlier))])
	}
	return kind
}

// fileContents returns the names and bytes of all files but the lock.
func fileContents(t *testing.T, dir string) (all []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == lockName {
			return err
		}
		b, err := os.ReadFile(path)
		all = append(all, filepath.Base(path)+"\x00"+string(b))
		return err
	}))
	return all
}

// listing returns the names and sizes of all files.
func listing(dir string) string {
	all, _ := os.ReadDir(dir)
	text := ""
	for _, e := range all {
		info, _ := e.Info()
		text += fmt.Sprintf("%s %d bytes; ", e.Name(), info.Size())
	}
	return text
}

// TestSnapshotThatFailedToSync: a snapshot is written, and the system drops it at the sync.
// The next process finds it in memory, and makes it durable before the manifest states so: a
// power failure then loses no grant.
func TestSnapshotThatFailedToSync(t *testing.T) {
	x, parent := new(tape), t.TempDir()
	var broken atomic.Bool
	on := &hooked{x.under(neverSynced), func(o operation, do func() error) error {
		switch {
		case o.kind == stepSync && filepath.Base(o.path) == filepath.Base(segmentPath("", 2)) && o.on.end > headerSize:
			x.lose(o)
			return syscall.EIO
		case broken.Load() && o.kind == stepCreate && filepath.Base(o.path) == filepath.Base(segmentPath("", 3)):
			return syscall.EIO
		}
		return do()
	}}
	e := open(t, filepath.Join(parent, "1"), SyncEvery(time.Hour), withFiles(on))
	granted(t, e, 3)
	broken.Store(true)
	e.keeper.now <- struct{}{}
	must.Await(t, "the sync of the snapshot fails", func() bool { return e.Err() != nil })
	killed := x.now()
	e.Close()
	must.Do(t, x.kill(filepath.Join(parent, "2"), killed))
	e = open(t, filepath.Join(parent, "2"), SyncEvery(time.Hour), withFiles(x.under(system{})))
	crash := x.now()
	e.Close()
	for seed := range uint64(20) {
		image := filepath.Join(parent, "image")
		must.Do(t, x.image(image, crash, reordered, rand.New(rand.NewPCG(seed, 0))))
		after := open(t, image)
		wantLeft(t, after, 7, "seed", seed)
		after.Close()
		os.RemoveAll(image)
	}
}

// TestFirstOpensCanBeKilled: the process is killed before any step of its first Open, and so
// is the next one. The third makes durable what it goes on with: a grant survives a power
// failure that leaves nothing else.
func TestFirstOpensCanBeKilled(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	opened := func(x *tape, dir string) *Engine {
		e, err := openEngine(dir, "always", nil, light, withFiles(x.under(neverSynced)))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for first, most := 0, 1; first <= most; first++ {
		for second, longest := first+rand.IntN(4), first+1; second <= longest; second += 4 {
			x, parent := new(tape), t.TempDir()
			opened(x, filepath.Join(parent, "1")).Close()
			most = len(x.steps)
			must.Do(t, x.kill(filepath.Join(parent, "2"), first))
			opened(x, filepath.Join(parent, "2")).Close()
			longest = len(x.steps)
			must.Do(t, x.kill(filepath.Join(parent, "3"), second))
			e := opened(x, filepath.Join(parent, "3"))
			granted(t, e, 3)
			e.Close()
			must.Do(t, x.image(filepath.Join(parent, "image"), len(x.steps), dropped, rand.New(rand.NewPCG(0, 0))))
			after := open(t, filepath.Join(parent, "image"), light)
			wantLeft(t, after, 7, "killed before steps", first, second)
			after.Close()
		}
	}
}
