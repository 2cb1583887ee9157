package weirdisk

import (
	"errors"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// lanes bring changes and histories into a memory engine, each lane those of some keys, in their
// order. A start waits for memory most of the time, so it takes two thirds of the time on two
// processors (bench/disk, restart).
type lanes struct {
	memory *weir.Memory
	lanes  []lane
	free   chan []task // buffers
	busy   sync.WaitGroup
	idle   bool // there are no tasks
	alone  int  // the next tasks that no lane gets
	failed atomic.Bool
}

// lane is one goroutine.
type lane struct {
	next []task
	work chan []task
}

// task is a history to restore, or a change to redo if that has a plan.
type task struct {
	change  weir.Change
	history weir.StoredHistory
}

const (
	// mostLanes bounds the goroutines: the one that reads the log cannot keep more busy.
	mostLanes = 8

	// laneTasks is the number of tasks that a lane gets at once.
	laneTasks = 256

	// laneEntries bounds the entries of a history in a lane, which copies them: they take more
	// memory there than in the engine.
	laneEntries = 128

	// aloneTasks follow each one that had to wait for all lanes. The wait takes as long as some
	// dozens of tasks.
	aloneTasks = 128
)

// errLanes: some task could not be done.
var errLanes = errors.New("weirdisk: the log cannot be read in lanes")

// newLanes returns n lanes, or none if n is 1.
func newLanes(m *weir.Memory, n int) *lanes {
	l := &lanes{memory: m, idle: true}
	if n == 1 {
		return l
	}
	l.free = make(chan []task, 4*n)
	for range cap(l.free) {
		l.free <- make([]task, 0, laneTasks)
	}
	for range n {
		one := lane{<-l.free, make(chan []task, cap(l.free))}
		l.lanes = append(l.lanes, one)
		go l.run(one.work)
	}
	return l
}

func (l *lanes) run(work <-chan []task) {
	for tasks := range work {
		for i := range tasks {
			var err error
			if t := &tasks[i]; t.change.Plan != nil {
				err = l.memory.Redo(&t.change)
			} else {
				err = l.memory.Restore(&t.history)
			}
			if err != nil {
				l.failed.Store(true)
			}
		}
		l.free <- tasks[:0]
		l.busy.Done()
	}
}

// task returns the next task of the key's lane, to be filled in. It returns nil if the caller
// must do it: then all tasks before are done.
func (l *lanes) task(key []byte) *task {
	if len(l.lanes) == 0 {
		return nil
	}
	if l.alone > 0 {
		l.alone--
		return nil
	}
	l.idle = false
	one := &l.lanes[int(crc32.Checksum(key, castagnoli))%len(l.lanes)]
	if len(one.next) == laneTasks {
		l.start(one)
	}
	one.next = one.next[:len(one.next)+1]
	return &one.next[len(one.next)-1]
}

// start hands the tasks of a lane over.
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

// close waits for all tasks and ends the goroutines. The error is errLanes.
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
