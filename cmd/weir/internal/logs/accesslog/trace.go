package accesslog

import (
	"bytes"
	"encoding/json"
	"strconv"
)

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
	var call struct{ Op string }
	return json.Unmarshal(line, &call) == nil && call.Op != "" && call.Op != "check"
}

func isHeader(line []byte) bool { return bytes.HasPrefix(line, []byte(traceHeader)) }

// addHeader adds the counts of a header of a recorded trace.
func (s *Stats) addHeader(line []byte) error {
	var header struct{ Sample, Dropped *int64 }
	if json.Unmarshal(line, &header) != nil || header.Sample == nil || header.Dropped == nil || min(*header.Sample, *header.Dropped) < 0 {
		return errHeader
	}
	s.Sample, s.Dropped = max(s.Sample, *header.Sample), s.Dropped+*header.Dropped
	return nil
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
