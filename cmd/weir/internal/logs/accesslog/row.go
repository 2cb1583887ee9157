package accesslog

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
)

// row is the line that was read last, split into its values. It shares the memory of the line, and is
// valid until the next line is read.
type row struct {
	instant int64 // microseconds since 1970
	line    []byte
	values  []value // the columns in order, or the members of an object
	schema  *schema
	scratch []byte // memory for paths and decoded values

	isZoneless bool // the line has no zone; its instant is that of schema.zone
}

// value is a column, or a member of an object or of one in it.
type value struct {
	text     []byte // without quotes and escapes
	path     []byte // the names of a member and the objects around it; nil for a column
	isQuoted bool   // the column stands between quotes
	isObject bool   // the member is an object; it has no text
}

// reset empties r for a line with a schema.
func (r *row) reset(line []byte, s *schema) {
	*r = row{line: line, values: r.values[:0], scratch: r.scratch[:0], schema: s}
}

// join returns a path of two parts, in the memory of scratch.
func (r *row) join(a, b []byte) []byte {
	mark := len(r.scratch)
	r.scratch = append(append(r.scratch, a...), b...)
	return r.scratched(mark)
}

// scratched returns the bytes of scratch from a mark on. Appending to them does not overwrite later
// ones.
func (r *row) scratched(mark int) []byte { return r.scratch[mark:len(r.scratch):len(r.scratch)] }

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
		isShown := dots < 2 && !(v.isObject && dots == 0)
		if isShown && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// conversion derives the value of a field from the text of its column or member, such as the path
// from a request line. nil = the text is the value.
type conversion func(r *row, b []byte) []byte

// lastAddress returns the last address of a list, the nearest to the server, without the port.
func lastAddress(_ *row, b []byte) []byte {
	return withoutPort(bytes.TrimSpace(b[bytes.LastIndexByte(b, ',')+1:]))
}

// beforePort returns an address before the port that always follows, also of IPv6 without
// brackets. A Unix socket has a number in its place.
func beforePort(_ *row, b []byte) []byte {
	i := bytes.LastIndexByte(b, ':')
	if i > 0 && b[0] != '[' && !bytes.HasPrefix(b, []byte("unix:")) {
		return b[:i]
	}
	return withoutPort(b)
}

// afterWord returns a text without the word that begins it, as in Client 192.0.2.1.
func afterWord(_ *row, b []byte) []byte {
	_, rest, _ := bytes.Cut(b, []byte(" "))
	return rest
}

// pathOf returns the path of a path with a query, or of an absolute URL.
func pathOf(_ *row, b []byte) []byte {
	_, path, _ := splitTarget(b)
	return path
}

// queryOf returns the query of a path, or of an absolute URL.
func queryOf(_ *row, b []byte) []byte {
	_, _, query := splitTarget(b)
	return query
}

// requestMethod returns the method of a request line, such as GET /path?query HTTP/1.1. A text
// that is no request line, as of a TLS handshake on a plain port, has no parts.
func requestMethod(_ *row, b []byte) []byte {
	if method, _, ok := bytes.Cut(b, []byte(" ")); ok {
		return method
	}
	return nil
}

func requestPath(r *row, b []byte) []byte  { return pathOf(r, requestTarget(b)) }
func requestQuery(r *row, b []byte) []byte { return queryOf(r, requestTarget(b)) }

func requestHost(_ *row, b []byte) []byte {
	authority, _, _ := splitTarget(requestTarget(b))
	return withoutPort(authority)
}

// requestTarget returns the target of a request line.
func requestTarget(b []byte) []byte {
	_, target, _ := bytes.Cut(b, []byte(" "))
	i := bytes.LastIndexByte(target, ' ')
	if i >= 0 && bytes.HasPrefix(target[i+1:], []byte("HTTP/")) {
		return target[:i]
	}
	return target
}

// percentDecoded decodes the percent-encoding of a text. A percent sign without two digits stays.
func percentDecoded(r *row, b []byte) []byte {
	mark := len(r.scratch)
	for len(b) > 0 {
		if b[0] == '%' && len(b) > 2 {
			if decoded, err := hex.AppendDecode(r.scratch, b[1:3]); err == nil {
				r.scratch = decoded
				b = b[3:]
				continue
			}
		}
		r.scratch = append(r.scratch, b[0])
		b = b[1:]
	}
	return r.scratched(mark)
}

// splitTarget splits the target of a request. A target that is no absolute URL has no
// authority.
func splitTarget(b []byte) (authority, path, query []byte) {
	path = b
	if len(b) > 0 && b[0] != '/' {
		if i := bytes.Index(b, []byte("://")); i > 0 && bytes.IndexByte(b[:i], '?') < 0 {
			authority = b[i+3:]
			path = nil
			if j := bytes.IndexAny(authority, "/?"); j >= 0 {
				path = authority[j:]
				authority = authority[:j]
			}
			if len(path) == 0 {
				path = []byte("/")
			}
		}
	}
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		query = path[i+1:]
		path = path[:i]
	}
	return authority, path, query
}

// withoutPort returns an address without port and brackets. An IPv6 address without
// brackets has no port, and the peer unix: of a Unix socket has none either.
func withoutPort(b []byte) []byte {
	if bytes.HasPrefix(b, []byte("unix:")) {
		return b
	}
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

// unescaped decodes the escapes that nginx and Apache write, such as \x22. Go has the same escapes.
// A backslash that begins none of them stays.
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
		r.scratch = append(r.scratch, b[0])
		b = b[1:]
	}
	return r.scratched(mark)
}

const micro = 1_000_000

const (
	errTime = problem("the time is in no known notation; use RFC 3339, " +
		"10/Oct/2000:13:55:36 -0700, or a number since 1970")
	errNoZone = problem("the time has no zone, and a guess could be wrong by hours; " +
		"log it with an offset, such as time_iso8601 of nginx")
	errRange = problem("the time is outside 1970 … 2255; log the time of the request")
)

// timeLayouts are the notations of times, as package time has them. Seconds may have a fraction in
// each of them.
var timeLayouts = [...]string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05Z07",
	"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 -07:00", "2006-01-02 15:04:05 UTC",
	"02/Jan/2006:15:04:05 -0700", "02/Jan/2006:15:04:05Z07:00", "02/Jan/2006:15:04:05 -07:00",
	"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006/01/02 15:04:05",
	"02/Jan/2006:15:04:05", "02/Jan/2006 15:04:05",
}

// noZone is the index of the first of timeLayouts without a zone.
const noZone = 12

// parseInstant reads an instant in any notation: microseconds since 1970.
func parseInstant(b []byte) (int64, error) {
	if len(b) < len(time.DateTime) || b[4] != '-' && b[4] != '/' && b[2] != '/' {
		return parseNumberTime(b)
	}
	text := string(b)
	isLeap := false
	if i := strings.LastIndex(text, ":60"); i == 16 || i == 17 {
		isLeap = true // a leap second counts as the second before it
		text = text[:i] + ":59" + text[i+3:]
	}
	for i, layout := range timeLayouts {
		if b[2] != layout[2] && (b[2] == '/' || layout[2] == '/') {
			continue // an error of time.Parse takes memory
		}
		t, err := time.Parse(layout, text)
		switch {
		case err != nil:
		case i >= noZone:
			return 0, errNoZone
		case isLeap && t.Unix()%86_400 != 86_399:
			return 0, errTime
		default:
			return inRange(t.UnixMicro())
		}
	}
	return 0, errTime
}

// parseNumberTime reads a number since 1970. Its unit follows from its size.
func parseNumberTime(b []byte) (int64, error) {
	text := string(b)
	whole, _, _ := strings.Cut(text, ".")
	// seconds have up to 11 digits, and each unit 3 more
	units := [...]string{"s", "ms", "us", "ns"}
	unit := units[min(max(0, len(whole)/3-3), len(units)-1)]
	_, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "-0123456789.") != "" {
		return 0, errTime
	}
	d, err := time.ParseDuration(text + unit)
	if err != nil { // too large
		return 0, errRange
	}
	return inRange(d.Microseconds())
}

// parseInstantIn reads a time without a zone in one of timeLayouts.
func parseInstantIn(b []byte, layout string, zone *time.Location) (int64, error) {
	if len(b) < len(layout) || b[2] != layout[2] && (b[2] == '/' || layout[2] == '/') {
		return 0, errTime
	}
	t, err := time.ParseInLocation(layout, string(b), zone)
	if err != nil {
		return 0, errTime
	}
	return inRange(t.UnixMicro())
}

// inRange returns an instant, or the error of one that no decision can have.
func inRange(at int64) (int64, error) {
	if at < 0 || at > weir.MaxInstant {
		return 0, errRange
	}
	return at, nil
}
