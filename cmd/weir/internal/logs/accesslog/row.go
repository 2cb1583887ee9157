package accesslog

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// row is a line that has just been read, with all of its values. It shares the memory of the
// line, and is valid until the next one.
type row struct {
	instant int64 // microseconds since 1970
	line    []byte
	values  []value // by column, or the members of an object
	schema  *schema
	scratch []byte // paths, and decoded values
}

// value is a column, or a member of an object or of one in it.
type value struct {
	text     []byte // decoded
	path     []byte // of a member: its names with dots between them
	isQuoted bool   // of a column
	isObject bool   // of a member; it has no text
}

// reset empties r for a line with a schema.
func (r *row) reset(line []byte, s *schema) {
	*r = row{line: line, values: r.values[:0], scratch: r.scratch[:0], schema: s}
}

// join returns two parts of a path as one.
func (r *row) join(a, b []byte) []byte {
	mark := len(r.scratch)
	r.scratch = append(append(r.scratch, a...), b...)
	return r.scratch[mark:len(r.scratch):len(r.scratch)]
}

// fieldNames returns the names of the fields that have a value in this line, those of every
// format first, and members of objects with a dot: key.ip. It is for messages.
func (r *row) fieldNames() (names []string) {
	for _, f := range facts {
		if hasValue(r.get(f)) {
			names = append(names, string(f))
		}
	}
	for i, v := range r.values {
		name := string(v.path)
		if r.schema.columns != nil {
			if i == len(r.schema.columns) {
				break
			}
			name = r.schema.columns[i]
		}
		dots := strings.Count(name, ".")
		if isOuter := v.isObject && dots == 0; !isOuter && dots < 2 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// how derives a field from a column or member.
type how uint8

const (
	plain         how = iota
	lastAddress       // without the port; the last in a list, the nearest to the server
	beforePort        // before the port that always follows, also of IPv6 without brackets
	pathOf            // from a path with a query, or an absolute URL
	queryOf           // from the same
	requestMethod     // from a request line
	requestPath
	requestQuery
	requestHost
	percent // percent-encoded
)

// derive derives a field from the text of a column or member.
func (r *row) derive(b []byte, h how) []byte {
	switch h {
	case lastAddress:
		return withoutPort(bytes.TrimSpace(b[bytes.LastIndexByte(b, ',')+1:]))
	case beforePort:
		if i := bytes.LastIndexByte(b, ':'); i > 0 && b[0] != '[' {
			return b[:i]
		}
		return withoutPort(b)
	case pathOf:
		_, p, _ := splitTarget(b)
		return p
	case queryOf:
		_, _, q := splitTarget(b)
		return q
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
	authority, p, q := splitTarget(rest)
	switch h {
	case requestMethod:
		return verb
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

// unescaped returns a text without the backslashes of nginx and Apache, which are those of
// Go. A backslash before any other byte stays.
func (r *row) unescaped(b []byte) []byte {
	mark := len(r.scratch)
	for len(b) > 0 {
		if b[0] == '\\' {
			s := string(b[:min(len(b), len(`\U0010FFFF`))])
			if c, isWide, rest, err := strconv.UnquoteChar(s, '"'); err == nil {
				b = b[len(s)-len(rest):]
				if isWide {
					r.scratch = utf8.AppendRune(r.scratch, c)
				} else {
					r.scratch = append(r.scratch, byte(c))
				}
				continue
			}
		}
		r.scratch, b = append(r.scratch, b[0]), b[1:]
	}
	return r.scratch[mark:len(r.scratch):len(r.scratch)]
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
