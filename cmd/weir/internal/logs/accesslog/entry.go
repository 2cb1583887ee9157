package accesslog

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Entry is one line of a log. It is valid until the next call of Next.
type Entry struct {
	At   int64  // microseconds since 1970, 0 … weir.MaxInstant
	File string // as given to Open
	Line int64  // counted from 1

	line    []byte
	columns []span   // of a text
	members []member // of an object
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

// Get returns the value of a field. ok is false if the line has none: the field is
// missing, empty, or a lone - as logs write it. The value is valid until the next call of
// Next and must not be changed.
func (e *Entry) Get(f Field) (value []byte, ok bool) {
	value = e.get(f)
	return value, len(value) > 0 && !(len(value) == 1 && value[0] == '-')
}

// forwardedFor is the header that lists the addresses of a client and of proxies.
const forwardedFor = "x-forwarded-for"

// Forwarded returns the addresses from the client to the proxies, with commas between
// them: the field X-Forwarded-For, or a list in place of the client address, as Traefik
// logs it. ok is false if the line has neither. The value is valid until the next call of
// Next.
func (e *Entry) Forwarded() (list []byte, ok bool) {
	if list, ok = e.Get(Field{header, forwardedFor}); ok {
		return list, true
	}
	for _, p := range e.schema.from[remoteAddr] {
		if len(list) == 0 {
			list = e.at(place{path: p.path})
		}
	}
	return list, bytes.IndexByte(list, ',') >= 0
}

// Names returns the names of the fields that have a value in this line, those of every
// format first, and members of objects with a dot: key.ip. It is for messages.
func (e *Entry) Names() (names []string) {
	for i := remoteAddr; i < facts; i++ {
		if _, ok := e.Get(Field{fact: i}); ok {
			names = append(names, factNames[i])
		}
	}
	own := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range e.schema.columns[:min(len(e.columns), len(e.schema.columns))] {
		own(name)
	}
	for _, m := range e.members {
		name := string(e.line[m.name.from:m.name.to])
		if m.parent >= 0 {
			parent := e.members[m.parent]
			if parent.parent >= 0 {
				continue
			}
			name = string(e.line[parent.name.from:parent.name.to]) + "." + name
		}
		if m.value.kind != kindObject || m.parent >= 0 {
			own(name)
		}
	}
	return names
}

// reset empties e and copies a line with a schema into it.
func (e *Entry) reset(line []byte, s *schema) {
	e.line = append(e.line[:0], line...)
	e.columns, e.members, e.scratch = e.columns[:0], e.members[:0], e.scratch[:0]
	e.schema, e.At = s, 0
}

// value returns the text of a span.
func (e *Entry) value(s span) []byte {
	raw := e.line[s.from:s.to]
	switch s.kind {
	case kindEscaped:
		mark := len(e.scratch)
		e.scratch = appendUnescaped(e.scratch, raw)
		return e.scratch[mark:len(e.scratch):len(e.scratch)]
	case kindJSON:
		mark := len(e.scratch)
		e.scratch, _ = jsontext.AppendUnquote(e.scratch, e.line[s.from-1:s.to+1])
		return e.scratch[mark:len(e.scratch):len(e.scratch)]
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
	lastAddress       // of a list with commas, the nearest to the server
	pathOf            // of a path with a query, or an absolute URL
	queryOf           // of the same
	hostOf            // of an absolute URL, without the port
	requestMethod     // of a request line
	requestPath
	requestQuery
	requestHost
	percent // percent-encoded
)

// derive derives a field from the text of a column or member.
func (e *Entry) derive(b []byte, h how) []byte {
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
			mark := len(e.scratch)
			e.scratch = appendDecoded(e.scratch, b)
			return e.scratch[mark:len(e.scratch):len(e.scratch)]
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
