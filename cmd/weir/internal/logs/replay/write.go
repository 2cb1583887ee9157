package replay

import (
	"strconv"

	"github.com/weirlimit/weir/internal/answer"
)

// AppendJSON appends the line as a trace holds it. Defaults are left out. Parsing
// the result returns the same line, if its strings are UTF-8.
func (l *Line) AppendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"at_us":`...), l.At, 10)
	b = answer.AppendString(append(b, `,"policy":`...), l.Policy)
	if len(l.Key) > 0 {
		b = append(b, `,"key":`...)
		open := byte('{')
		for i := range l.Key {
			b = answer.AppendString(append(b, open), l.Key[i].Name)
			b = answer.AppendString(append(b, ':'), l.Key[i].Value)
			open = ','
		}
		b = append(b, '}')
	}
	if l.N != 1 {
		b = strconv.AppendInt(append(b, `,"n":`...), l.N, 10)
	}
	if l.Op != Check {
		b = answer.AppendString(append(b, `,"op":`...), l.Op.String())
	}
	switch l.Op {
	case Count:
		b = answer.AppendString(append(b, `,"limit":`...), l.Limit)
		b = strconv.AppendInt(append(b, `,"last_us":`...), l.Last, 10)
	case Refund:
		b = strconv.AppendInt(append(b, `,"granted_at_us":`...), l.GrantedAt, 10)
	}
	if l.ID != "" {
		b = answer.AppendString(append(b, `,"id":`...), l.ID)
	}
	return append(b, "}\n"...)
}
