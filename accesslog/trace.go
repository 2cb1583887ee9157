package accesslog

import (
	"bytes"
	"strconv"
)

// traceObject is the members of a line of a trace of package replay. The dimensions of its
// key have dotted names, such as key.ip, and its units are the bytes.
func traceObject(o Options) *object {
	obj := newObject(o, "at_us", map[fact][]place{size: places(plain, "n")})
	obj.isTrace = true
	return obj
}

// traceHeader begins the header of a recorded trace.
const traceHeader = `{"trace":`

// isOtherCall reports whether a line of a trace is no attempt: a header, or a call with
// another op. It finds nothing in lines that are not JSON.
func isOtherCall(line []byte) bool {
	if isHeader(line) {
		return true
	}
	if !bytes.Contains(line, []byte(`"op"`)) {
		return false
	}
	members, err := indexJSON(line, nil)
	if err != nil {
		return false
	}
	op, ok := findMember(line, members, "op")
	return ok && string(line[op.from:op.to]) != "check"
}

func isHeader(line []byte) bool { return bytes.HasPrefix(line, []byte(traceHeader)) }

// addHeader adds the counts of a header of a recorded trace.
func (s *Stats) addHeader(line []byte) error {
	sample, ok := countIn(line, "sample")
	dropped, ok2 := countIn(line, "dropped")
	if !ok || !ok2 {
		return errHeader
	}
	s.Sample, s.Dropped = max(s.Sample, sample), s.Dropped+dropped
	return nil
}

// countIn returns a member of a line that is a whole number of 0 or more.
func countIn(line []byte, name string) (n int64, ok bool) {
	members, err := indexJSON(line, nil)
	if err != nil {
		return 0, false
	}
	at, _ := findMember(line, members, name)
	n, err = strconv.ParseInt(string(line[at.from:at.to]), 10, 64)
	return n, err == nil && n >= 0
}

const errHeader = problem("the header of the trace is cut off or changed")

// traceInstant reads at_us. Unlike other numbers, a small one is microseconds too.
func traceInstant(b []byte) (int64, error) {
	us, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, errTime
	}
	return inRange(us)
}
