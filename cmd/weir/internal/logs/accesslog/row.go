package accesslog

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// row is a line that has just been read, with all of its fields. It shares the memory of the
// line, and is valid until the next one.
type row struct {
	instant int64 // microseconds since 1970
	line    []byte
	columns []span   // in a line of text
	members []member // in a line of JSON
	schema  *schema
	scratch []byte // decoded values
}

// span is a part of a line.
type span struct {
	from, to uint32
	kind     kind
}

// kind is the notation of a value.
type kind uint8

const (
	kindWord    kind = iota // as it stands
	kindQuoted              // between quotes
	kindEscaped             // between quotes, with a backslash
	kindJSON                // the same as JSON has them
	kindObject
	kindNull // null, and other values without a text
)

// fieldNames returns the names of the fields that have a value in this line, those of every
// format first, and members of objects with a dot: key.ip. It is for messages.
func (r *row) fieldNames() (names []string) {
	for i := remoteAddr; i < facts; i++ {
		if hasValue(r.get(Field{fact: i})) {
			names = append(names, factNames[i])
		}
	}
	own := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range r.schema.columns[:min(len(r.columns), len(r.schema.columns))] {
		own(name)
	}
	for _, m := range r.members {
		name := string(r.line[m.name.from:m.name.to])
		if m.parent >= 0 {
			parent := r.members[m.parent]
			if parent.parent >= 0 {
				continue
			}
			name = string(r.line[parent.name.from:parent.name.to]) + "." + name
		}
		if m.value.kind != kindObject || m.parent >= 0 {
			own(name)
		}
	}
	return names
}

// reset empties r for a line with a schema.
func (r *row) reset(line []byte, s *schema) {
	*r = row{line: line, columns: r.columns[:0], members: r.members[:0], scratch: r.scratch[:0], schema: s}
}

// value returns the text of a span.
func (r *row) value(s span) []byte {
	raw := r.line[s.from:s.to]
	switch s.kind {
	case kindEscaped:
		mark := len(r.scratch)
		r.scratch = appendUnescaped(r.scratch, raw)
		return r.scratch[mark:len(r.scratch):len(r.scratch)]
	case kindJSON:
		mark := len(r.scratch)
		r.scratch, _ = jsontext.AppendUnquote(r.scratch, r.line[s.from-1:s.to+1])
		return r.scratch[mark:len(r.scratch):len(r.scratch)]
	case kindNull, kindObject:
		return nil
	}
	return raw
}

// how derives a field from a column or member.
type how uint8

const (
	plain         how = iota
	address           // without the port
	beforePort        // before the port that always follows, also of IPv6 without brackets
	lastAddress       // the last in a list, the nearest to the server
	pathOf            // from a path with a query, or an absolute URL
	queryOf           // from the same
	hostOf            // from an absolute URL, without the port
	requestMethod     // from a request line
	requestPath
	requestQuery
	requestHost
	percent // percent-encoded
)

// derive derives a field from the text of a column or member.
func (r *row) derive(b []byte, h how) []byte {
	switch h {
	case address:
		return withoutPort(b)
	case beforePort:
		if i := bytes.LastIndexByte(b, ':'); i > 0 && b[0] != '[' {
			return b[:i]
		}
		return withoutPort(b)
	case lastAddress:
		return withoutPort(bytes.TrimSpace(b[bytes.LastIndexByte(b, ',')+1:]))
	case pathOf:
		_, p, _ := splitTarget(b)
		return p
	case queryOf:
		_, _, q := splitTarget(b)
		return q
	case hostOf:
		h, _, _ := splitTarget(b)
		return withoutPort(h)
	case requestMethod, requestPath, requestQuery, requestHost:
		return requestPart(b, h)
	case percent:
		if bytes.IndexByte(b, '%') >= 0 {
			mark := len(r.scratch)
			r.scratch = appendDecoded(r.scratch, b)
			return r.scratch[mark:len(r.scratch):len(r.scratch)]
		}
	}
	return b
}

// requestPart returns a part of a request line, such as GET /path?query HTTP/1.1. A text
// that is no request line, as of a TLS handshake on a plain port, has no parts.
func requestPart(b []byte, h how) []byte {
	verb, rest, ok := bytes.Cut(b, []byte(" "))
	if !ok {
		return nil
	}
	if i := bytes.LastIndexByte(rest, ' '); i >= 0 && bytes.HasPrefix(rest[i+1:], []byte("HTTP/")) {
		rest = rest[:i]
	}
	if h == requestMethod {
		return verb
	}
	authority, p, q := splitTarget(rest)
	switch h {
	case requestPath:
		return p
	case requestQuery:
		return q
	}
	return withoutPort(authority)
}

// splitTarget splits the target of a request. A target that is no absolute URL has no
// authority.
func splitTarget(b []byte) (authority, path, query []byte) {
	path = b
	if len(b) > 0 && b[0] != '/' {
		if i := bytes.Index(b, []byte("://")); i > 0 && bytes.IndexByte(b[:i], '?') < 0 {
			authority, path = b[i+3:], nil
			if j := bytes.IndexAny(authority, "/?"); j >= 0 {
				authority, path = authority[:j], authority[j:]
			}
			if len(path) == 0 {
				path = []byte("/")
			}
		}
	}
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path, query = path[:i], path[i+1:]
	}
	return authority, path, query
}

// withoutPort returns an address without port and brackets. An IPv6 address without
// brackets has no port.
func withoutPort(b []byte) []byte {
	if len(b) > 0 && b[0] == '[' {
		if i := bytes.IndexByte(b, ']'); i > 0 {
			return b[1:i]
		}
		return b
	}
	if i := bytes.IndexByte(b, ':'); i >= 0 && bytes.IndexByte(b[i+1:], ':') < 0 {
		return b[:i]
	}
	return b
}

// appendUnescaped appends a text without the backslashes of nginx and Apache, which are those
// of Go. A backslash before any other byte stays.
func appendUnescaped(out, b []byte) []byte {
	for len(b) > 0 {
		if b[0] == '\\' {
			s := string(b[:min(len(b), len(`\U0010FFFF`))])
			if c, isWide, rest, err := strconv.UnquoteChar(s, '"'); err == nil {
				b = b[len(s)-len(rest):]
				if isWide {
					out = utf8.AppendRune(out, c)
				} else {
					out = append(out, byte(c))
				}
				continue
			}
		}
		out, b = append(out, b[0]), b[1:]
	}
	return out
}

// appendDecoded appends a percent-encoded text. A percent sign without two digits stays.
func appendDecoded(out, b []byte) []byte {
	for len(b) > 0 {
		if b[0] == '%' && len(b) > 2 {
			if decoded, err := hex.AppendDecode(out, b[1:3]); err == nil {
				out, b = decoded, b[3:]
				continue
			}
		}
		out, b = append(out, b[0]), b[1:]
	}
	return out
}
