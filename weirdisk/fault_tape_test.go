package weirdisk

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// tape is the sequence of all operations on the files of a directory, with the events of
// the callers between them. It makes images: the files as a power failure could leave
// them.
type tape struct {
	mu    sync.Mutex
	steps []step
	count int // files so far; each has a number, since names are used again
}

// step is one operation on a file or the directory, or an event of a caller.
type step struct {
	kind stepKind
	file int    // number of the file
	name string // create, remove and rename: the name
	to   string // rename: the new name
	at   int64  // offset of write, size of truncate
	data []byte // write: the bytes
	mark *event // mark: the event
	ends int    // sync and syncDir: the step at which it returned, 0 if it has not
}

type stepKind uint8

const (
	stepCreate stepKind = iota
	stepWrite
	stepTruncate
	stepSync // begins; it covers the steps before it
	stepRemove
	stepRename
	stepSyncDir
	stepReturn // a sync returns
	stepLost   // a sync failed: the system dropped the unsynced writes of the file, and reports that once
	stepMark
	stepOpen // opens a file that is there; a tape has none
)

// add appends a step and returns its place.
func (t *tape) add(s step) int {
	place, _ := t.addFile(s)
	return place
}

// addFile is add that also returns the number of the file.
func (t *tape) addFile(s step) (place, file int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.kind == stepCreate {
		t.count++
		s.file = t.count
	}
	s.data = slices.Clone(s.data)
	t.steps = append(t.steps, s)
	return len(t.steps) - 1, s.file
}

// now is the number of steps so far, while an engine may add more.
func (t *tape) now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.steps)
}

// write adds an event of a caller, as pipe does.
func (t *tape) write(e event) { t.add(step{kind: stepMark, mark: &e}) }

// returned notes that the sync at a place has returned.
func (t *tape) returned(place int) {
	end := t.add(step{kind: stepReturn})
	t.mu.Lock()
	t.steps[place].ends = end
	t.mu.Unlock()
}

// names returns the files by name.
func (t *tape) names() map[string]int {
	all := map[string]int{}
	for i := range t.steps {
		t.steps[i].rename(all)
	}
	return all
}

// rename makes the step's change of names, and returns the file that a stepRename moved.
func (s *step) rename(names map[string]int) (moved int) {
	switch s.kind {
	case stepCreate:
		names[s.name] = s.file
	case stepRemove:
		delete(names, s.name)
	case stepRename:
		moved = names[s.name]
		names[s.to] = moved
		delete(names, s.name)
	}
	return moved
}

// kill ends the tape before a step, as the end of the process does, and returns the image
// that the next process finds: no power has failed.
func (t *tape) kill(dir string, before int) error {
	t.steps = t.steps[:before]
	for i := range t.steps {
		if s := &t.steps[i]; s.ends >= before {
			s.ends = 0
		}
	}
	return t.image(dir, before, kept, rand.New(rand.NewPCG(0, 0)))
}

// durable returns, for each step before the crash, whether it is on stable storage: a write
// is after a sync of its file, a change of names after a sync of the directory.
func (t *tape) durable(crash int) []bool {
	all := make([]bool, crash)
	last, lastDir := map[int]int{}, -1
	for i := crash - 1; i >= 0; i-- {
		s := &t.steps[i]
		switch s.kind {
		case stepSync:
			if s.ends > 0 && s.ends < crash && last[s.file] == 0 {
				last[s.file] = i
			}
		case stepSyncDir:
			if s.ends > 0 && s.ends < crash && lastDir < 0 {
				lastDir = i
			}
		case stepLost: // a later sync covers only what was written behind
			last[s.file] = 0
		case stepWrite, stepTruncate:
			all[i] = i < last[s.file]
		case stepCreate, stepRemove, stepRename:
			all[i] = i < lastDir
		}
	}
	return all
}

// guaranteed returns the place before which all events are on stable storage: no write, new size
// or new name of a segment before it can be lost, unless its file was removed for good.
func (t *tape) guaranteed(crash int, durable []bool) int {
	removed, segments := map[int]bool{}, map[int]bool{}
	names := map[string]int{}
	for i := range crash {
		switch s := &t.steps[i]; s.kind {
		case stepCreate:
			names[s.name] = s.file
			segments[s.file] = !strings.HasPrefix(s.name, manifestName)
		case stepRemove:
			removed[names[s.name]] = durable[i]
		}
	}
	for i := range crash {
		switch s := &t.steps[i]; s.kind {
		case stepCreate, stepWrite, stepTruncate:
			if segments[s.file] && !durable[i] && !removed[s.file] {
				return i
			}
		}
	}
	return crash
}

// damage is the fate of unsynced steps in an image.
type damage uint8

const (
	dropped   damage = iota // none was made
	kept                    // all were made, as after a kill
	torn                    // the first ones were made, and a part of the next
	reordered               // some were made, in any order, and sectors of the others
	zeroed                  // sizes were made, data was not
	damages
)

const sector = 512

// fate is the part of a step that an image has.
type fate uint8

const (
	fateNone  fate = iota
	fateWhole      // as it was made
	fateParts      // some parts of its data
	fateBegin      // a first part of its data
	fateSize       // its size, and zeros in place of its data
)

// fates draws the fate of each step before the crash.
func (t *tape) fates(crash int, durable []bool, d damage, r *rand.Rand) []fate {
	all := make([]fate, crash)
	var late []int
	for i := range all {
		if durable[i] {
			all[i] = fateWhole
		} else if k := t.steps[i].kind; k != stepSync && k != stepSyncDir && k < stepReturn {
			late = append(late, i)
		}
	}
	cut := r.IntN(len(late) + 1)
	for n, i := range late {
		switch d {
		case kept:
			all[i] = fateWhole
		case torn:
			if n < cut {
				all[i] = fateWhole
			} else if n == cut {
				all[i] = fateBegin
			}
		case reordered:
			all[i] = fate(r.IntN(3))
		case zeroed:
			all[i] = []fate{fateWhole, fateSize}[r.IntN(2)]
		}
	}
	return all
}

// image writes the files as they may be after a power failure before a step.
func (t *tape) image(dir string, crash int, d damage, r *rand.Rand) error {
	content, names := map[int][]byte{}, map[string]int{}
	inMemory := map[string]int{} // names as the system had them
	for i, f := range t.fates(crash, t.durable(crash), d, r) {
		s := &t.steps[i]
		moved := s.rename(inMemory)
		if f == fateNone {
			continue
		}
		switch s.kind {
		case stepCreate:
			names[s.name] = s.file
		case stepRemove:
			delete(names, s.name)
		case stepRename: // the file moves, also if an older one has kept the name
			names[s.to] = moved
			if names[s.name] == moved {
				delete(names, s.name)
			}
		case stepTruncate:
			content[s.file] = resized(content[s.file], s.at)
		case stepWrite:
			content[s.file] = written(content[s.file], s, f, r)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, file := range names {
		if err := os.WriteFile(filepath.Join(dir, name), content[file], 0o600); err != nil {
			return err
		}
	}
	return nil
}

func resized(b []byte, size int64) []byte {
	if int64(len(b)) >= size {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

// written returns b after a write. Lost parts keep their old bytes, or are zeros at the end
// of the file. Parts are sectors, or of any size.
func written(b []byte, s *step, f fate, r *rand.Rand) []byte {
	part := sector
	if r.IntN(2) == 0 {
		part = 1 + r.IntN(len(s.data))
	}
	if f == fateWhole {
		part = len(s.data)
	}
	for from := 0; from < len(s.data); from += part {
		to := min(from+part, len(s.data))
		lost := f == fateSize || f == fateParts && r.IntN(2) == 0 || f == fateBegin && from > 0
		if lost && f == fateBegin {
			break
		}
		if end := s.at + int64(to); int64(len(b)) < end {
			b = resized(b, end)
		}
		if !lost {
			copy(b[s.at+int64(from):], s.data[from:to])
		}
	}
	return b
}

// TestTape: images of a small tape.
func TestTape(t *testing.T) {
	x := new(tape)
	x.add(step{kind: stepCreate, name: "a"})
	x.returned(x.add(step{kind: stepSyncDir}))
	x.add(step{kind: stepWrite, file: 1, data: []byte("one ")})
	x.returned(x.add(step{kind: stepSync, file: 1}))
	x.add(step{kind: stepWrite, file: 1, at: 4, data: []byte("two")})
	unfinished := x.add(step{kind: stepSync, file: 1})
	crash := len(x.steps)
	for d, want := range map[damage][]string{dropped: {"one "}, kept: {"one two"}, torn: {"one ", "one t", "one tw", "one two"}, reordered: {"one ", "one two", "one \x00\x00\x00", "one t\x00\x00", "one tw\x00", "one t\x00o", "one \x00w\x00", "one \x00\x00o", "one \x00wo", "one tw", "one \x00\x00"}, zeroed: {"one two", "one \x00\x00\x00"}} {
		for range 20 {
			dir := filepath.Join(t.TempDir(), "image")
			must.Do(t, x.image(dir, crash, d, rand.New(rand.NewPCG(rand.Uint64(), 0))))
			if got, _ := os.ReadFile(filepath.Join(dir, "a")); !slices.Contains(want, string(got)) {
				t.Errorf("damage %d: %q, want one of %q", d, got, want)
			}
		}
	}
	assert.Equal(t, x.guaranteed(crash, x.durable(crash)), unfinished-1, "guaranteed before a step")
	x.returned(unfinished)
	assert.Equal(t, x.guaranteed(len(x.steps), x.durable(len(x.steps))), len(x.steps), "all is synced: guaranteed before a step")
}
