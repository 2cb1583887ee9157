package weirdisk

import (
	"errors"
	"path/filepath"

	"github.com/weirlimit/weir/internal/memory"
)

// Report describes a directory that is not in use.
type Report struct {
	Segments   int
	Bytes      int64 // all segments together
	Histories  int   // that count, or that no sweep has removed yet
	Operations int   // with an idempotency key, likewise
	Cut        Cut   // the end that Open would cut
}

// errNoStore is the error of a directory without a segment.
var errNoStore = errors.New("there is no store here yet")

// Check reads a directory that is not in use, as Open does, and changes nothing. Its errors
// are those of Open, and that of a directory without a store.
func Check(dir string) (Report, error) { return visit(dir, func(*Item) error { return nil }) }

// Item is one stored history, or an operation if its Operation is not nil.
type Item = memory.Change

// Dump calls each with everything that counts in a directory that is not in use, and
// changes nothing. It stops at the first error of each and returns it. An Item is valid
// during the call only. Dump's other errors are those of Check.
func Dump(dir string, each func(*Item) error) error {
	_, err := visit(dir, each)
	return err
}

// visit calls each with all items of a directory, which it locks while it reads.
func visit(dir string, each func(*Item) error) (r Report, err error) {
	dir = filepath.Clean(dir)
	lock, err := claim(dir, false, true)
	if err != nil {
		return r, openError(dir, err)
	}
	c, err := load(&options{}, dir)
	lock.Close()
	if err == nil && len(c.segments) == 0 {
		err = errNoStore
	}
	if err != nil {
		return r, openError(dir, err)
	}
	r = Report{Segments: len(c.segments), Bytes: c.bytes(), Cut: c.cut}
	err = visitAll(c.decoder.memory, func(i *Item) error {
		if i.Operation != nil {
			r.Operations++
		} else {
			r.Histories++
		}
		return each(i)
	})
	return r, err
}

// visitAll calls each with all items, up to its first error.
func visitAll(m *memory.Memory, each func(*Item) error) (err error) {
	place, now := memory.DumpPlace{}, m.Clock()
	for more := true; more && err == nil; {
		more = m.Dump(&place, snapshotStep, now, func(i *Item) {
			if err == nil {
				err = each(i)
			}
		})
	}
	return err
}
