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

// words splits the rest of a line, from the byte at i, into columns with one space between
// them. A column may be quoted.
func (r *row) words(i int) error {
	b := r.line
	for i < len(b) {
		if b[i] == '"' {
			end, k := quoteEnd(b, i+1)
			if end < 0 {
				return errQuote
			}
			r.columns = append(r.columns, span{uint32(i + 1), uint32(end), k})
			if i = end + 1; i < len(b) && b[i] != ' ' {
				return errSpace
			}
			i++
			continue
		}
		end := bytes.IndexByte(b[i:], ' ')
		if end < 0 {
			end = len(b) - i
		}
		r.columns = append(r.columns, span{uint32(i), uint32(i + end), kindWord})
		i += end + 1
	}
	return nil
}

// quoteEnd returns the place of the quote that ends a string, or -1. The string begins at
// i, behind its first quote.
func quoteEnd(b []byte, i int) (end int, k kind) {
	k = kindQuoted
	for ; i < len(b); i++ {
		switch b[i] {
		case '\\':
			k = kindEscaped
			i++
		case '"':
			return i, k
		}
	}
	return -1, k
}

// status reports whether a column is a status: three digits, or - of a request without
// an answer.
func (r *row) isStatus(column int) bool {
	b := r.line[r.columns[column].from:r.columns[column].to]
	if len(b) == 1 && (b[0] == '-' || b[0] == '0') {
		return true
	}
	return len(b) == 3 && len(bytes.Trim(b, "0123456789")) == 0
}

// Columns of the common log format and its relatives.
const (
	clfRequest = iota + 4
	clfStatus
	clfBytes
	clfReferer
	clfAgent
	clfNext
)

// check returns an error for a line with fewer columns, without quotes around some of them,
// or without a status.
func (r *row) check(least, status int, quoted ...int) error {
	isWord := func(column int) bool { return r.columns[column].kind == kindWord }
	switch {
	case len(r.columns) < least || slices.ContainsFunc(quoted, isWord):
		return errColumns
	case !r.isStatus(status):
		return errStatus
	}
	return nil
}

// clf reads the columns of the common log format and those behind them. A user name may
// have spaces.
func (r *row) clf() error {
	r.line = r.line[clfStart(r.line):]
	b := r.line
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
	r.columns = append(r.columns, span{0, uint32(remote), 0}, span{uint32(remote + 1), uint32(ident), 0},
		span{uint32(ident + 1), uint32(open), 0}, span{uint32(open + 2), uint32(end), 0})
	return r.words(end + 2)
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
	err := cmp.Or(r.clf(), r.check(clfReferer, clfStatus, clfRequest))
	if err == nil && len(r.columns) > clfReferer {
		return errExtra
	}
	return err
}

func (r *row) combined() error {
	err := cmp.Or(r.clf(), r.check(clfNext, clfStatus, clfRequest, clfReferer, clfAgent))
	if err == nil && len(r.columns) > clfNext && r.columns[clfNext].kind == kindWord {
		r.columns = r.columns[:clfNext] // a number, not x_forwarded_for
	}
	return err
}

func (r *row) traefik() error {
	err := cmp.Or(r.clf(), r.check(clfNext+4, clfStatus, clfRequest))
	if err == nil && (len(r.columns) != clfNext+4 || r.columns[clfNext].kind != kindWord || !bytes.HasSuffix(r.line, []byte("ms"))) {
		return errColumns
	}
	return err
}

// envoy reads Envoy's default format.
func (r *row) envoy() error {
	const request, status, forwarded, all = 1, 2, 8, 13
	end := bytes.IndexByte(r.line, ']')
	if r.line[0] != '[' || end < 0 {
		return errBracket
	}
	r.columns = append(r.columns, span{1, uint32(end), kindWord})
	err := cmp.Or(r.words(end+2), r.check(all, status, request, forwarded))
	if err == nil && len(r.columns) > all {
		return errColumns
	}
	return err
}

// alb reads the log of an Application Load Balancer.
func (r *row) alb() error {
	const status, request, agent, least = 8, 12, 13, 17 // least is that of the first version
	return cmp.Or(r.words(0), r.check(least, status, request, agent))
}

// tabs splits a line of a W3C log into columns with one tab between them, or spaces.
func (r *row) tabs() {
	b, separator := r.line, byte('\t')
	if bytes.IndexByte(b, separator) < 0 {
		separator = ' '
	}
	for i := 0; i <= len(b); {
		end := bytes.IndexByte(b[i:], separator)
		if end < 0 {
			end = len(b) - i
		}
		r.columns = append(r.columns, span{uint32(i), uint32(i + end), kindWord})
		for i += end + 1; separator == ' ' && i < len(b) && b[i] == ' '; i++ {
		}
	}
}
