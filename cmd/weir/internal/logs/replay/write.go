package replay

import "strconv"

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
