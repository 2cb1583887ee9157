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
	errW3C     = problem("the number of columns differs from that of the #Fields line")
)

// add adds columns.
func (r *row) add(columns ...[]byte) {
	for _, text := range columns {
		r.values = append(r.values, value{text: text})
	}
}

// spaced splits a line, or the rest of one, into columns with one space between them, and checks them.
// A column may be quoted, and a time may stand in brackets.
func (r *row) spaced(b []byte) error {
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
			r.add(word)
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
	return r.check()
}

// quoteEnd returns the place of the quote that ends a string, or -1, and whether the string
// has a backslash. Its first byte is a quote.
func quoteEnd(b []byte) (end int, isEscaped bool) {
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

// isStatus reports whether a column is a status: three digits, or - of a request without
// an answer.
func isStatus(b []byte) bool {
	return string(b) == "-" || string(b) == "0" || len(b) == 3 && len(bytes.Trim(b, "0123456789")) == 0
}

// check returns an error for a line with too few or too many columns, without quotes around
// some of them, or without a status. An optional column without its quotes ends the line: it is
// one of another kind.
func (r *row) check() error {
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

// clf splits a line into the columns of the common log format and those behind them. A user
// name may have spaces.
func (r *row) clf(b []byte) error {
	b, space := b[clfStart(b):], []byte(" ")
	remote, rest, _ := bytes.Cut(b, space)
	for bytes.HasSuffix(remote, []byte(",")) { // a list of addresses, as Traefik and proxies log it
		var next []byte
		if next, rest, _ = bytes.Cut(rest, space); len(next) == 0 {
			return errColumns
		}
		remote = b[:len(remote)+1+len(next)]
	}
	ident, rest, hasUser := bytes.Cut(rest, space)
	user, _, hasTime := bytes.Cut(rest, []byte(" ["))
	switch {
	case len(remote) == 0 || len(ident) == 0 || !hasUser:
		return errColumns
	case len(user) == 0 || !hasTime:
		return errBracket
	}
	r.add(remote, ident, user)
	return r.spaced(rest[len(user)+1:])
}

// clfStart returns the place of the client address in a line that begins with other words: a
// virtual host, or the prefix of syslog or of a container's log. The address is the second
// word, or the first one with a - behind it, so that no user name is taken for it.
func clfStart(b []byte) int {
	first := bytes.IndexByte(b, ' ')
	if first <= 0 || b[first-1] == ',' || bytes.HasPrefix(b[first+1:], []byte("- ")) || isAddress(b[:first]) && !hasPort(b[:first]) {
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
	return 0
}

// isAddress reports whether a column is an IP address, with or without a port.
func isAddress(b []byte) bool {
	_, ok := clientaddr.ParseNode(string(b))
	return ok
}

// hasPort reports whether an address has a port: of a client that is a column of its own.
func hasPort(b []byte) bool {
	return b[len(b)-1] != ']' && len(withoutPort(b)) < len(b)
}

// traefik reads Traefik's common log format. Other formats may have as many columns.
func (r *row) traefik(b []byte) error {
	err := r.clf(b)
	const count = 9
	if err == nil && (r.values[count].isQuoted || !bytes.HasSuffix(b, []byte("ms"))) {
		return errColumns
	}
	return err
}

// w3c splits a line of a W3C log: columns with one tab between them, or spaces.
func (r *row) w3c(b []byte) error {
	if bytes.IndexByte(b, '\t') < 0 {
		for text := range bytes.FieldsSeq(b) {
			r.add(text)
		}
	} else {
		for text := range bytes.SplitSeq(b, []byte("\t")) {
			r.add(text)
		}
	}
	if n := len(r.values); n < r.schema.least || r.schema.most && n > len(r.schema.columns) {
		return errW3C
	}
	return nil
}
