package accesslog

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
)

const (
	errColumns = problem("the line has too few columns")
	errExtra   = problem("the line has more columns than the common format; is it combined?")
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

// words splits the rest of a line into columns with one space between them. A column may be
// quoted.
func (r *row) words(b []byte) error {
	for len(b) > 0 {
		if b[0] != '"' {
			word, rest, _ := bytes.Cut(b, []byte(" "))
			r.add(word)
			b = rest
			continue
		}
		end, isEscaped := quoteEnd(b)
		if end < 0 {
			return errQuote
		}
		text := b[1:end]
		if isEscaped {
			text = r.unescaped(text)
		}
		r.values = append(r.values, value{text: text, isQuoted: true})
		if b = b[end+1:]; len(b) > 0 {
			if b[0] != ' ' {
				return errSpace
			}
			b = b[1:]
		}
	}
	return nil
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
	if len(b) == 1 && (b[0] == '-' || b[0] == '0') {
		return true
	}
	return len(b) == 3 && len(bytes.Trim(b, "0123456789")) == 0
}

// check returns an error for a line with too few columns, without quotes around some of them,
// or without a status.
func (r *row) check() error {
	isWord := func(column int) bool { return !r.values[column].isQuoted }
	switch s := r.schema; {
	case len(r.values) < s.least || slices.ContainsFunc(s.quoted, isWord):
		return errColumns
	case !isStatus(r.values[s.status].text):
		return errStatus
	}
	return nil
}

// clf reads the columns of the common log format and those behind them. A user name may
// have spaces.
func (r *row) clf() error {
	b := r.line[clfStart(r.line):]
	remote := bytes.IndexByte(b, ' ')
	for remote > 0 && b[remote-1] == ',' { // a list of addresses, as Traefik and proxies log it
		end := bytes.IndexByte(b[remote+1:], ' ')
		if end <= 0 {
			return errColumns
		}
		remote += end + 1
	}
	if remote <= 0 {
		return errColumns
	}
	ident := bytes.IndexByte(b[remote+1:], ' ')
	if ident <= 0 {
		return errColumns
	}
	ident += remote + 1
	open := bytes.Index(b[ident:], []byte(" [")) + ident
	end := bytes.IndexByte(b[open:], ']') + open
	if open <= ident || end <= open {
		return errBracket
	}
	r.add(b[:remote], b[remote+1:ident], b[ident+1:open], b[open+2:end])
	return r.words(b[min(end+2, len(b)):])
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

// isAddress reports whether a column is an IP address.
func isAddress(b []byte) bool {
	if len(b) < 2 || bytes.IndexByte(b, '.') < 0 && bytes.IndexByte(b, ':') < 0 {
		return false
	}
	_, err := netip.ParseAddr(string(withoutPort(b)))
	return err == nil
}

// hasPort reports whether an address has a port: of a client that is a column of its own.
func hasPort(b []byte) bool {
	return b[len(b)-1] != ']' && len(withoutPort(b)) < len(b)
}

func (r *row) common() error {
	err := cmp.Or(r.clf(), r.check())
	if err == nil && len(r.values) > len(r.schema.columns) {
		return errExtra
	}
	return err
}

func (r *row) combined() error {
	err := cmp.Or(r.clf(), r.check())
	if next := r.schema.least; err == nil && len(r.values) > next && !r.values[next].isQuoted {
		r.values = r.values[:next] // a number, not x_forwarded_for
	}
	return err
}

func (r *row) traefik() error {
	err := cmp.Or(r.clf(), r.check())
	const count = 9
	if err == nil && (len(r.values) != len(r.schema.columns) || r.values[count].isQuoted || !bytes.HasSuffix(r.line, []byte("ms"))) {
		return errColumns
	}
	return err
}

// envoy reads Envoy's default format.
func (r *row) envoy() error {
	end := bytes.IndexByte(r.line, ']')
	if r.line[0] != '[' || end < 0 {
		return errBracket
	}
	r.add(r.line[1:end])
	err := cmp.Or(r.words(r.line[min(end+2, len(r.line)):]), r.check())
	if err == nil && len(r.values) > len(r.schema.columns) {
		return errColumns
	}
	return err
}

// alb reads the log of an Application Load Balancer.
func (r *row) alb() error { return cmp.Or(r.words(r.line), r.check()) }

// w3c reads a line of a W3C log: columns with one tab between them, or spaces.
func (r *row) w3c() error {
	if bytes.IndexByte(r.line, '\t') < 0 {
		for text := range bytes.FieldsSeq(r.line) {
			r.add(text)
		}
	} else {
		for text := range bytes.SplitSeq(r.line, []byte("\t")) {
			r.add(text)
		}
	}
	if n := len(r.values); r.schema.isExact && n != len(r.schema.columns) || !r.schema.isExact && n < r.schema.least {
		return errW3C
	}
	return nil
}
