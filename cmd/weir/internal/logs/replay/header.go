package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/weirlimit/weir"
)

// Header is a line of a recorded trace that describes the lines after it. It is the first
// line of each file, and stands again where calls are missing. It has no answer.
type Header struct {
	Sample  int64 // one of Sample keys is recorded, 1 … weir.MaxUnits; 1 = all
	Hashed  bool  // the values of keys are hashed
	Dropped int64 // calls of recorded keys that are missing since the header before, 0 … weir.MaxUnits
}

// headerStart begins every header, and no other line.
const headerStart = `{"trace":`

// traceVersion is the version of the format that this package reads and writes.
const traceVersion = 1

// AppendJSON appends the header as a line.
func (h Header) AppendJSON(b []byte) []byte {
	b = append(strconv.AppendInt(append(b, headerStart...), traceVersion, 10), `,"sample":`...)
	b = append(strconv.AppendInt(b, h.Sample, 10), `,"keys":"`...)
	if h.Hashed {
		b = append(b, "hashed"...)
	} else {
		b = append(b, "plain"...)
	}
	b = strconv.AppendInt(append(b, `","dropped":`...), h.Dropped, 10)
	return append(b, "}\n"...)
}

// IsHeader reports whether a line begins like a header.
func IsHeader(line []byte) bool { return bytes.HasPrefix(line, []byte(headerStart)) }

// ParseHeader reads a header. The error is a *[LineError].
func ParseHeader(line []byte) (h Header, err error) {
	var members struct {
		Trace   int64  `json:"trace"`
		Sample  int64  `json:"sample"`
		Keys    string `json:"keys"`
		Dropped int64  `json:"dropped"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	switch err := d.Decode(&members); {
	case err != nil || d.More():
		return h, &LineError{Problem: "the header of the trace is cut off or changed; it is " + string(Header{Sample: 10, Hashed: true}.AppendJSON(nil))}
	case members.Trace != traceVersion:
		return h, &LineError{Problem: fmt.Sprintf("the trace has version %d, and this weir reads %d; use the weir that recorded it", members.Trace, traceVersion)}
	case members.Sample < 1 || members.Sample > weir.MaxUnits || members.Dropped < 0 || members.Dropped > weir.MaxUnits:
		return h, &LineError{Problem: fmt.Sprintf("the header has sample %d and dropped %d; use 1 to %d and 0 to %d", members.Sample, members.Dropped, weir.MaxUnits, weir.MaxUnits)}
	}
	return Header{members.Sample, members.Keys == "hashed", members.Dropped}, nil
}

// AppendJSON appends the line as a trace holds it. Defaults are left out, and strings keep
// their bytes. Parsing the result returns the same line if they are UTF-8.
func (l *Line) AppendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"at_us":`...), l.At, 10)
	b = appendText(append(b, `,"policy":`...), l.Policy)
	if len(l.Key) > 0 {
		b = append(b, `,"key":`...)
		open := byte('{')
		for i := range l.Key {
			b = appendText(append(b, open), l.Key[i].Name)
			b = appendText(append(b, ':'), l.Key[i].Value)
			open = ','
		}
		b = append(b, '}')
	}
	if l.N != 1 {
		b = strconv.AppendInt(append(b, `,"n":`...), l.N, 10)
	}
	if l.Op != Check {
		b = appendText(append(b, `,"op":`...), l.Op.String())
	}
	switch l.Op {
	case Count:
		b = appendText(append(b, `,"limit":`...), l.Limit)
		b = strconv.AppendInt(append(b, `,"last_us":`...), l.Last, 10)
	case Refund:
		b = strconv.AppendInt(append(b, `,"granted_at_us":`...), l.GrantedAt, 10)
	}
	if l.ID != "" {
		b = appendText(append(b, `,"id":`...), l.ID)
	}
	return append(b, "}\n"...)
}

// appendText appends s as a JSON string. Unlike [answer.AppendString] it keeps bytes that
// are not UTF-8, because keys are bytes (R14).
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
