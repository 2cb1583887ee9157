package weirdisk

import (
	"errors"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/memory"
)

// lanes apply changes to a memory engine in several goroutines. All changes of one
// key go to one goroutine, in the order of the log. A start spends most of its time on cache
// misses, as keys are far apart in memory, so two processors take two thirds of the time of one.
type lanes struct {
	memory *memory.Memory
	lanes  []lane
	free   chan []memory.Change // empty buffers
	busy   sync.WaitGroup
	idle   bool // all tasks are done
	alone  int  // entries that the reader still applies itself
	failed atomic.Bool
}

// lane is one goroutine.
type lane struct {
	next []memory.Change
	work chan []memory.Change
}

const (
	// maxLanes bounds the goroutines. One goroutine reads the log, which is too slow for more.
	maxLanes = 8

	// laneTasks is the number of tasks that are sent to a lane at once.
	laneTasks = 256

	// laneEntries bounds the entries of a history in a task. The reader applies longer ones
	// itself, as entries in tasks take more memory than in the engine.
	laneEntries = 128

	// aloneTasks is the number of entries that the reader applies itself after a wait for all
	// lanes. A wait takes as long as some dozens of entries.
	aloneTasks = 128
)

// errLanes: a lane could not apply a task.
var errLanes = errors.New("weirdisk: the log cannot be replayed in lanes")

// newLanes returns n lanes, or none if n is 1.
func newLanes(m *memory.Memory, n int) *lanes {
	l := &lanes{memory: m, idle: true}
	if n == 1 {
		return l
	}
	l.free = make(chan []memory.Change, 4*n)
	for range cap(l.free) {
		l.free <- make([]memory.Change, 0, laneTasks)
	}
	for range n {
		one := lane{<-l.free, make(chan []memory.Change, cap(l.free))}
		l.lanes = append(l.lanes, one)
		go l.run(one.work)
	}
	return l
}

func (l *lanes) run(work <-chan []memory.Change) {
	for tasks := range work {
		for i := range tasks {
			if l.memory.Apply(&tasks[i]) != nil {
				l.failed.Store(true)
			}
		}
		l.free <- tasks[:0]
		l.busy.Done()
	}
}

// task returns the next task of the key's lane, to be filled in. If it returns nil, the caller
// waits for all lanes and applies the entry itself.
func (l *lanes) task(key []byte) *memory.Change {
	if len(l.lanes) == 0 {
		return nil
	}
	if l.alone > 0 { // since a wait, so all lanes are idle
		l.alone--
		return nil
	}
	l.idle = false
	one := &l.lanes[crc32.Checksum(key, castagnoli)%uint32(len(l.lanes))]
	if len(one.next) == laneTasks {
		l.start(one)
	}
	one.next = one.next[:len(one.next)+1]
	return &one.next[len(one.next)-1]
}

// start sends the tasks to the goroutine of the lane, and takes an empty buffer.
func (l *lanes) start(one *lane) {
	l.busy.Add(1)
	one.work <- one.next
	one.next = <-l.free
}

// wait waits for all tasks.
func (l *lanes) wait() {
	if l.idle {
		return
	}
	for i := range l.lanes {
		l.start(&l.lanes[i])
	}
	l.busy.Wait()
	l.idle, l.alone = true, aloneTasks
}

// close waits for all tasks and ends the goroutines. Its only error is errLanes.
func (l *lanes) close() error {
	l.wait()
	for _, one := range l.lanes {
		close(one.work)
	}
	if l.failed.Load() {
		return errLanes
	}
	return nil
}
