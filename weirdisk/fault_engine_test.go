package weirdisk

import (
	"io"
	"time"

	"github.com/weirlimit/weir/engine"
)

// disk is the part of Engine that the fault tests use.
type disk interface {
	engine.Engine
	io.Closer
	Err() error
}

// openEngine opens a directory in a mode, on files.
func openEngine(dir, mode string, f files, opts ...Option) (disk, error) {
	sync := map[string]Option{"always": SyncAlways(), "100ms": SyncEvery(100 * time.Millisecond)}[mode]
	return Open(dir, append([]Option{sync, func(o *options) { o.files = f }}, opts...)...)
}

// snapshotsEvery makes snapshots follow n bytes, soon.
func snapshotsEvery(n int64) Option {
	return func(o *options) { o.growth, o.tick = n, time.Millisecond }
}
