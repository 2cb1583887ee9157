package accesslog

import (
	"bytes"
	"net/netip"
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
func (e *Entry) words(i int) error {
	b := e.line
	for i < len(b) {
		if b[i] == '"' {
			end, k := quoteEnd(b, i+1)
			if end < 0 {
				return errQuote
			}
			e.columns = append(e.columns, span{uint32(i + 1), uint32(end), k})
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
		e.columns = append(e.columns, span{uint32(i), uint32(i + end), kindWord})
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
func (e *Entry) isStatus(column int) bool {
	b := e.line[e.columns[column].from:e.columns[column].to]
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

// parseCLF reads the first seven columns and those behind them. A user name may have
// spaces.
func (e *Entry) parseCLF() error {
	if start := clfStart(e.line); start > 0 {
		e.line = append(e.line[:0], e.line[start:]...)
	}
	b := e.line
	remote := bytes.IndexByte(b, ' ')
	if remote <= 0 {
		return errColumns
	}
	for b[remote-1] == ',' { // a list of addresses, as Traefik and proxies log it
		end := bytes.IndexByte(b[remote+1:], ' ')
		if end <= 0 {
			return errColumns
		}
		remote += end + 1
	}
	ident := bytes.IndexByte(b[remote+1:], ' ')
	if ident <= 0 {
		return errColumns
	}
	ident += remote + 1
	open := bytes.Index(b[ident:], []byte(" ["))
	if open <= 0 {
		return errBracket
	}
	open += ident
	end := bytes.IndexByte(b[open:], ']')
	if end < 0 {
		return errBracket
	}
	end += open
	e.columns = append(e.columns, span{0, uint32(remote), 0}, span{uint32(remote + 1), uint32(ident), 0},
		span{uint32(ident + 1), uint32(open), 0}, span{uint32(open + 2), uint32(end), 0})
	if err := e.words(end + 2); err != nil {
		return err
	}
	switch {
	case len(e.columns) <= clfBytes || e.columns[clfRequest].kind == kindWord:
		return errColumns
	case !e.isStatus(clfStatus):
		return errStatus
	}
	return nil
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

func (e *Entry) common() error {
	if err := e.parseCLF(); err != nil {
		return err
	}
	if len(e.columns) > clfReferer {
		return errExtra
	}
	return nil
}

func (e *Entry) combined() error {
	if err := e.parseCLF(); err != nil {
		return err
	}
	if len(e.columns) < clfNext || e.columns[clfReferer].kind == kindWord || e.columns[clfAgent].kind == kindWord {
		return errColumns
	}
	if len(e.columns) > clfNext && e.columns[clfNext].kind == kindWord {
		e.columns = e.columns[:clfNext] // a number, not x_forwarded_for
	}
	return nil
}

func (e *Entry) traefik() error {
	if err := e.parseCLF(); err != nil {
		return err
	}
	if n := len(e.columns); n != clfNext+4 || e.columns[clfNext].kind != kindWord || !bytes.HasSuffix(e.line, []byte("ms")) {
		return errColumns
	}
	return nil
}

// Columns of Envoy's default format, and their number.
const (
	envoyRequest   = 1
	envoyStatus    = 2
	envoyForwarded = 8
	envoyColumns   = 13
)

func (e *Entry) envoy() error {
	b := e.line
	end := bytes.IndexByte(b, ']')
	if b[0] != '[' || end < 0 {
		return errBracket
	}
	e.columns = append(e.columns, span{1, uint32(end), kindWord})
	if err := e.words(end + 2); err != nil {
		return err
	}
	switch {
	case len(e.columns) != envoyColumns || e.columns[envoyRequest].kind == kindWord || e.columns[envoyForwarded].kind == kindWord:
		return errColumns
	case !e.isStatus(envoyStatus):
		return errStatus
	}
	return nil
}

// Columns of an Application Load Balancer.
const (
	albStatus  = 8
	albRequest = 12
	albAgent   = 13
	albMin     = 17 // the columns of the first version
)

func (e *Entry) alb() error {
	if err := e.words(0); err != nil {
		return err
	}
	switch {
	case len(e.columns) < albMin || e.columns[albRequest].kind == kindWord || e.columns[albAgent].kind == kindWord:
		return errColumns
	case !e.isStatus(albStatus):
		return errStatus
	}
	return nil
}

// tabs splits a line of a W3C log into columns with one tab between them, or spaces.
func (e *Entry) tabs() {
	b, separator := e.line, byte('\t')
	if bytes.IndexByte(b, separator) < 0 {
		separator = ' '
	}
	for i := 0; i <= len(b); {
		end := bytes.IndexByte(b[i:], separator)
		if end < 0 {
			end = len(b) - i
		}
		e.columns = append(e.columns, span{uint32(i), uint32(i + end), kindWord})
		for i += end + 1; separator == ' ' && i < len(b) && b[i] == ' '; i++ {
		}
	}
}
