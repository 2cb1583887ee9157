package accesslog

import (
	"bytes"
	"slices"

	"github.com/weirlimit/weir/internal/clientaddr"
)

const (
	errColumns = problem("the line has too few columns")
	errExtra   = problem("the line has more columns than its format")
	errQuote   = problem("a quoted column does not end")
	errSpace   = problem("a space should follow a quoted column; is a quote inside not escaped?")
	errBracket = problem("a time in brackets should stand here")
	errStatus  = problem("the status is not three digits")
	errW3C     = problem("the number of columns differs from that of the #Fields line; " +
		"without that line tabs divide them")
	errPairs = problem("the line has no pairs of NAME=VALUE")

	errNoHeader = problem("no #Fields line stands before the line")
)

// addColumns adds columns.
func (r *row) addColumns(columns ...[]byte) {
	for _, text := range columns {
		r.values = append(r.values, value{text: text})
	}
}

// splitSpaced splits a line, or the rest of one, into columns with one space between them, and
// checks them. A column may be quoted, and a time may stand in brackets.
func (r *row) splitSpaced(b []byte) error {
	for len(b) > 0 {
		isTime := slices.Contains(r.schema.brackets, len(r.values))
		end, isEscaped := -1, false
		switch {
		case isTime:
			if end = bytes.IndexByte(b, ']'); b[0] != '[' || end < 0 {
				return errBracket
			}
		case b[0] == '"':
			if end, isEscaped = quoteEnd(b); end < 0 {
				return errQuote
			}
		default:
			word, rest, _ := bytes.Cut(b, []byte(" "))
			r.addColumns(word)
			b = rest
			continue
		}
		text := b[1:end]
		if isEscaped {
			text = r.unescaped(text)
		}
		r.values = append(r.values, value{text: text, isQuoted: !isTime})
		if b = b[end+1:]; len(b) > 0 {
			if b[0] != ' ' {
				return errSpace
			}
			b = b[1:]
		}
	}
	return r.checkColumns()
}

// quoteEnd returns the place of the quote that ends a string, or -1, and whether the string
// has a backslash. Its first byte is a quote.
func quoteEnd(b []byte) (end int, isEscaped bool) {
	end = 1 + bytes.IndexByte(b[1:], '"')
	if end > 0 && bytes.IndexByte(b[:end], '\\') < 0 {
		return end, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			isEscaped = true
			i++
		case '"':
			return i, isEscaped
		}
	}
	return -1, isEscaped
}

// isStatus reports whether a column is a status: three digits, or -, 0 or -1 of a request
// without an answer.
func isStatus(b []byte) bool {
	switch string(b) {
	case "-", "0", "-1":
		return true
	}
	isDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	return len(b) == 3 && isDigit(b[0]) && isDigit(b[1]) && isDigit(b[2])
}

// checkColumns returns an error for a line with too few or too many columns, or without a status. A
// column that should be quoted and is not ends the columns: it and those behind it are of no known
// meaning.
func (r *row) checkColumns() error {
	s := r.schema
	for _, i := range s.quoted {
		if i < len(r.values) && !r.values[i].isQuoted {
			r.values = r.values[:i]
		}
	}
	switch {
	case len(r.values) < s.least:
		return errColumns
	case !isStatus(r.values[s.status].text):
		return errStatus
	case s.most && len(r.values) > len(s.columns):
		return errExtra
	}
	return nil
}

// splitCLF splits a line into the columns of the common log format and those behind them. A user
// name may have spaces.
func (r *row) splitCLF(b []byte) error {
	b = b[clfStart(b):]
	space := []byte(" ")
	remote, rest, _ := bytes.Cut(b, space)
	for bytes.HasSuffix(remote, []byte(",")) { // a list of addresses, as Traefik and proxies log it
		var next []byte
		if next, rest, _ = bytes.Cut(rest, space); len(next) == 0 {
			return errColumns
		}
		remote = b[:len(remote)+1+len(next)]
	}
	ident, rest, hasUser := bytes.Cut(rest, space)
	end := userEnd(rest)
	switch {
	case len(remote) == 0 || len(ident) == 0 || !hasUser:
		return errColumns
	case end <= 0:
		return errBracket
	}
	r.addColumns(remote, ident, rest[:end])
	return r.splitSpaced(rest[end+1:])
}

// userEnd returns the place of the space between a user name and the time in brackets, or -1. The
// client chooses the name, which may have brackets too, so the time is the last of them before the
// request. A name with a time is none: a line that is cut off and the next one are together.
func userEnd(b []byte) int {
	open := bytes.Index(b, []byte(" ["))
	if open < 0 {
		return -1
	}
	length := bytes.IndexByte(b[open:], ']')
	request := []byte(`] "`)
	if length > 0 && !bytes.HasPrefix(b[open+length:], request) { // brackets of the name
		length = bytes.Index(b[open:], request)
	}
	isOne := length < 0 || bytes.IndexByte(b[open+2:open+length], '[') < 0
	if isOne || isBracketTime(b[open+1:]) {
		return open
	}
	return open + bytes.LastIndex(b[open:open+length], []byte(" ["))
}

// splitCommon splits a line of the common log format. It may have further columns, such as the
// time that the request took. A quoted one behind the size is the referer of the combined format.
func (r *row) splitCommon(b []byte) error {
	err := r.splitCLF(b)
	n := len(r.schema.columns)
	if err == nil && len(r.values) > n && r.values[n].isQuoted {
		return errExtra
	}
	return err
}

// splitBracketed splits a line that begins with a time in brackets. The prefix of a container's log
// may stand before it.
func (r *row) splitBracketed(b []byte) error {
	for len(b) < 2 || b[0] != '[' || b[1] < '0' || b[1] > '9' {
		next := bytes.Index(b, []byte(" ["))
		if next < 0 {
			return errBracket
		}
		b = b[next+1:]
	}
	return r.splitSpaced(b)
}

// clfStart returns the place of the client address in a line that begins with other words: a
// virtual host, or the prefix of syslog or of a container's log. The address is the second
// word, or the first one with a - behind it, so that no user name is taken for it.
func clfStart(b []byte) int {
	first := bytes.IndexByte(b, ' ')
	if first <= 0 || b[first-1] == ',' || bytes.HasPrefix(b[first+1:], []byte("- ")) {
		return 0
	}
	if isAddress(b[:first]) && !hasPort(b[:first]) {
		return 0
	}
	for i := first + 1; i < len(b) && b[i] != '['; {
		end := bytes.IndexByte(b[i:], ' ')
		if end < 0 {
			break
		}
		end += i
		if (i == first+1 || bytes.HasPrefix(b[end+1:], []byte("- "))) && isAddress(b[i:end]) {
			return i
		}
		i = end + 1
	}
	return hostStart(b, first)
}

// hostStart returns the place of a client that is a host name, in a line that begins with other
// words; 0 if there are none. The client is the second word if a - is behind it, as behind a virtual
// host. Otherwise it is the third word before the time: client, identity, user.
func hostStart(b []byte, first int) int {
	words, _, _ := bytes.Cut(b, []byte(" ["))
	if first >= len(words) {
		return 0
	}
	_, behind, _ := bytes.Cut(words[first+1:], []byte(" "))
	if bytes.HasPrefix(behind, []byte("- ")) {
		return first + 1
	}
	start := len(words)
	for range 3 {
		start = max(0, bytes.LastIndexByte(words[:start], ' '))
	}
	if start == 0 {
		return 0
	}
	return start + 1
}

// isAddress reports whether a column is an IP address, with or without a port.
func isAddress(b []byte) bool {
	_, ok := clientaddr.ParseNode(string(b))
	return ok
}

// hasPort reports whether an address has a port.
func hasPort(b []byte) bool {
	return b[len(b)-1] != ']' && len(withoutPort(b)) < len(b)
}

// splitTraefik splits a line of Traefik's common log format. It differs from other formats with as
// many columns by the number of the request, which has no quotes, and by the milliseconds at its end.
func (r *row) splitTraefik(b []byte) error {
	err := r.splitCLF(b)
	const count = 9
	if err == nil && (r.values[count].isQuoted || !bytes.HasSuffix(b, []byte("ms"))) {
		return errColumns
	}
	return err
}

// splitW3C splits a line of a W3C log: columns with one tab between them, or spaces if a header
// names them.
func (r *row) splitW3C(b []byte) error {
	s := r.schema
	hasTab := bytes.IndexByte(b, '\t') >= 0
	switch {
	case hasTab:
		for text := range bytes.SplitSeq(b, []byte("\t")) {
			r.addColumns(text)
		}
	case s.isExact:
		for text := range bytes.FieldsSeq(b) {
			r.addColumns(text)
		}
	}
	n := len(r.values)
	switch {
	case s.columns == nil && s.isExact:
		return errNoHeader
	case n < s.least || s.most && n > len(s.columns):
		return errW3C
	case s.status >= 0 && s.status < n && !isStatus(r.values[s.status].text):
		return errStatus
	}
	return nil
}

// splitHAProxy splits a line of option httplog: the client, the time, columns with spaces between
// them, captured headers in braces, and the request. A prefix of syslog may stand before it, and
// columns of option httpslog behind it.
func (r *row) splitHAProxy(b []byte) error {
	open := bytes.Index(b, []byte(" ["))
	for open >= 0 && !isBracketTime(b[open+1:]) {
		next := bytes.Index(b[open+2:], []byte(" ["))
		if next < 0 {
			return errBracket
		}
		open += 2 + next
	}
	if open < 0 {
		return errBracket
	}
	client := b[bytes.LastIndexByte(b[:open], ' ')+1 : open]
	end := open + bytes.IndexByte(b[open:], ']')
	quote := bytes.Index(b[end:], []byte(` "`))
	if quote < 0 {
		return errQuote
	}
	quote += end + 1
	request := b[quote+1:]
	if close := bytes.LastIndexByte(request, '"'); close >= 0 {
		request = request[:close]
	}
	r.addColumns(client, b[open+2:end])
	rest := bytes.TrimSpace(b[end+1 : quote])
	var headers []byte
	if brace := bytes.IndexByte(rest, '{'); brace >= 0 {
		headers = rest[brace:]
		rest = bytes.TrimSpace(rest[:brace])
	}
	for text := range bytes.FieldsSeq(rest) {
		r.addColumns(text)
	}
	const columns = 12 // before the request
	if len(r.values) != columns {
		return errColumns
	}
	if !isStatus(r.values[r.schema.status].text) {
		return errStatus
	}
	r.addColumns(request)
	for part := range bytes.SplitSeq(headers, []byte("} ")) {
		r.addColumns(bytes.Trim(part, "{}"))
	}
	return nil
}

// isBracketTime reports whether a text begins like [06/Feb/2009:12:14:14.655].
func isBracketTime(b []byte) bool {
	const shape = "[00/Aaa/0000:00:00:00"
	if len(b) < len(shape) || bytes.IndexByte(b, ']') < len(shape) {
		return false
	}
	for i, c := range []byte(shape) {
		fits := b[i] == c
		switch c {
		case '0':
			fits = '0' <= b[i] && b[i] <= '9'
		case 'A', 'a':
			fits = 'A' <= b[i]&^0x20 && b[i]&^0x20 <= 'Z'
		}
		if !fits {
			return false
		}
	}
	return true
}

// splitLogfmt splits a line of pairs NAME=VALUE, where a value may be quoted. Other words are skipped.
func (r *row) splitLogfmt(b []byte) error {
	for len(b) > 0 {
		end := bytes.IndexAny(b, "= ")
		if end < 0 {
			break
		}
		name := b[:end]
		b = b[end+1:]
		if end == 0 || b == nil || r.line[len(r.line)-len(b)-1] == ' ' {
			continue // a word
		}
		text, isEscaped := b, false
		if len(b) > 0 && b[0] == '"' {
			if end, isEscaped = quoteEnd(b); end < 0 {
				return errQuote
			}
			if text = b[1:end]; isEscaped {
				text = r.unescaped(text)
			}
			b = b[end+1:]
		} else {
			text, b, _ = bytes.Cut(b, []byte(" "))
		}
		if len(r.values) < maxMembers && len(name) <= maxPath {
			r.values = append(r.values, value{text: text, path: name})
		}
	}
	if len(r.values) == 0 {
		return errPairs
	}
	return nil
}
