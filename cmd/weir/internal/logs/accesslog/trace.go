package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir"
)

// TraceHeader is a line of a recorded trace that describes the lines after it. It is the
// first line of each file, and stands again where calls are missing.
type TraceHeader struct {
	Version int64  `json:"trace"`  // TraceVersion
	Sample  int64  `json:"sample"` // one of Sample keys is recorded, 1 … weir.MaxUnits; 1 = all
	Keys    string `json:"keys"`   // hashed or plain: the values of keys

	// Dropped is the number of calls of recorded keys that are missing since the header before,
	// 0 … weir.MaxUnits.
	Dropped int64 `json:"dropped"`
}

// TraceVersion is the version of the format that this program reads and writes.
const TraceVersion = 1

// AppendJSON appends the header as a line.
func (h TraceHeader) AppendJSON(b []byte) []byte {
	line, _ := json.Marshal(h) // never fails
	return append(append(b, line...), '\n')
}

// headerStart begins every header, and no other line.
const headerStart = `{"trace":`

// IsTraceHeader reports whether a line begins like a header.
func IsTraceHeader(line []byte) bool { return bytes.HasPrefix(line, []byte(headerStart)) }

// exampleHeader is a header for error messages.
var exampleHeader = TraceHeader{Version: TraceVersion, Sample: 10, Keys: "hashed"}

// ParseTraceHeader reads a header.
func ParseTraceHeader(line []byte) (h TraceHeader, err error) {
	err = json.Unmarshal(line, &h)
	written := h.AppendJSON(nil)
	inRange := func(n, least int64) bool { return least <= n && n <= weir.MaxUnits }
	switch {
	case err == nil && h.Version != TraceVersion:
		return h, fmt.Errorf("the trace has version %d, and this weir reads %d; "+
			"use the weir that recorded it", h.Version, TraceVersion)
	case err == nil && !(inRange(h.Sample, 1) && inRange(h.Dropped, 0)):
		return h, fmt.Errorf("the header has sample %d and dropped %d; use 1 to %d and 0 to %d",
			h.Sample, h.Dropped, weir.MaxUnits, weir.MaxUnits)
	case err != nil || !bytes.Equal(bytes.TrimSpace(line), bytes.TrimSpace(written)):
		return h, fmt.Errorf("the header of the trace is cut off or changed; it is %s",
			bytes.TrimSpace(exampleHeader.AppendJSON(nil)))
	}
	return h, nil
}

// isOtherCall reports whether a line of a trace is no attempt: a header, or a call with
// another op. It finds nothing in lines that are not JSON.
func isOtherCall(line []byte) bool {
	if IsTraceHeader(line) {
		return true
	}
	if !bytes.Contains(line, []byte(`"op"`)) {
		return false
	}
	var call struct{ Op string }
	return json.Unmarshal(line, &call) == nil && call.Op != "" && call.Op != "check"
}

// traceInstant reads at_us. Unlike other numbers, a small one is microseconds too.
func traceInstant(b []byte) (int64, error) {
	us, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, errTime
	}
	return inRange(us)
}
