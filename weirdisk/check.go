package weirdisk

import (
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/internal/memory"
)

// Report describes a directory that is not in use.
type Report struct {
	Segments   int
	Bytes      int64     // all segments together
	Entries    int64     // changes, and histories of snapshots
	Histories  int       // that count, or that no sweep has removed yet
	Operations int       // with an idempotency key, likewise
	Newest     time.Time // the newest instant; the engine's clock begins there at the earliest
	Cut        Cut       // the end that Open would cut
}

// Check reads a directory that is not in use, as Open does, and changes nothing. Its errors
// are those of Open.
func Check(dir string) (Report, error) {
	m, r, err := inspect(dir)
	if err != nil {
		return r, err
	}
	err = visit(m, func(*Item) error { return nil }, &r)
	return r, err
}

// Item is one stored history, or an operation if its Operation is not nil.
type Item = memory.Change

// Dump calls visit with everything that counts in a directory that is not in use, and
// changes nothing. It stops at the first error of visit and returns it. An Item is valid
// during the call only. Dump's other errors are those of Open.
func Dump(dir string, each func(*Item) error) error {
	m, r, err := inspect(dir)
	if err != nil {
		return err
	}
	return visit(m, each, &r)
}

// inspect loads a directory under its lock.
func inspect(dir string) (*memory.Memory, Report, error) {
	dir = filepath.Clean(dir)
	if err := checkOurs(dir); err != nil {
		return nil, Report{}, openError(dir, err)
	}
	lock, err := lockDir(filepath.Join(dir, lockName), false)
	if err != nil {
		return nil, Report{}, openError(dir, err)
	}
	defer lock.Close()
	c, err := load(&options{files: system{}}, dir, func() *memory.Memory { return memory.New(memory.Options{}) })
	if err != nil {
		return nil, Report{}, openError(dir, err)
	}
	m := c.decoder.memory
	r := Report{Segments: len(c.segments), Bytes: c.bytes(), Entries: c.decoder.entries, Cut: c.cut}
	if c.decoder.newest > 0 {
		r.Newest = time.UnixMicro(c.decoder.newest)
	}
	m.NotBefore(c.decoder.newest)
	m.Sweep()
	return m, r, nil
}

// visit calls each with all items, and counts them.
func visit(m *memory.Memory, each func(*Item) error, r *Report) (err error) {
	place := memory.DumpPlace{}
	next := func(n *int) func(*Item) {
		return func(i *Item) {
			if *n++; err == nil {
				err = each(i)
			}
		}
	}
	now := m.Clock()
	for more := true; more && err == nil; {
		more = m.Dump(&place, snapshotStep, now, next(&r.Histories))
	}
	for more := true; more && err == nil; {
		more = m.DumpOperations(&place, snapshotStep, next(&r.Operations))
	}
	return err
}
