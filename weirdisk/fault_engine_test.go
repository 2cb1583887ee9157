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
	sync := map[string]Option{"always": SyncAlways(), "100ms": SyncEvery(100 * time.Millisecond), "off": SyncOff()}[mode]
	return Open(dir, append([]Option{sync, func(o *options) { o.files = f }}, opts...)...)
}

// snapshotsEvery makes snapshots follow n bytes, soon, and allocates little at once: a
// tail of which the chunks take turns.
func snapshotsEvery(n int64) Option {
	return func(o *options) { o.growth, o.step, o.chunk, o.tick = n, 4<<10, 2<<10, time.Millisecond }
}

// layer returns the files of the child.
func (c *childConfig) layer() files {
	if c.AnswerFirst {
		return answerFirst{system{}}
	}
	return system{}
}
