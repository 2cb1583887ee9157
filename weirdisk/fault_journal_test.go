package weirdisk

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
)

// event is one line of a child's journal. The child writes an event before each operation and
// after each answer. The journal is a pipe: an event is in the parent's hands when write
// returns, so a kill loses none.
type event struct {
	Kind   eventKind
	Op     op
	Caller uint16
	Table  uint16 // index in policies
	Key    uint32 // index of the key
	N      int64  // units; of a refund, those that it took
	At     int64  // instant of the decision, microseconds
	Used   int64  // state: the units that count
	ID     uint64 // number of the idempotency key, 0 = none
}

type eventKind uint8

const (
	called   eventKind = 1 + iota // the operation is about to be made
	acked                         // the operation was acknowledged
	state                         // the state of a key after the start of a life
	ready                         // the engine is open
	repeated                      // an operation of an earlier life, in flight at its kill, was repeated
	fault                         // an acknowledged idempotency key is not remembered
)

// op is an operation of a caller.
type op uint8

const (
	attempt op = 1 + iota
	record
	refund
	reset
	once
)

// pipe is the journal in the child.
type pipe struct{ f *os.File }

// write adds an event. A write of less than PIPE_BUF bytes is atomic.
func (p pipe) write(e event) {
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, &e)
	if _, err := p.f.Write(b.Bytes()); err != nil {
		os.Exit(3) // the parent is gone
	}
}

// readJournal reads events until the child has ended. It closes began at the event ready.
func readJournal(r io.Reader, began chan<- struct{}) (events []event) {
	text := bufio.NewReader(r)
	for {
		var e event
		if binary.Read(text, binary.LittleEndian, &e) != nil {
			return events
		}
		if e.Kind == ready {
			close(began)
		}
		events = append(events, e)
	}
}
