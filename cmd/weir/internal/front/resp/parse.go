package resp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
)

// Bounds of one command. The longest useful command names sixteen dimensions
// of 1 KiB each.
const (
	maxCommand = 64 << 10 // bytes, the headers included
	maxArgs    = 64
	maxInline  = 4 << 10 // bytes of a command in the form of a line
)

// protocolError is an error after which the start of the next command is unknown: the
// connection ends.
type protocolError string

// Error returns the text for the client.
func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// parse parses the command at the beginning of text: an array of bulk strings, as clients
// send it, or a line of words, as people type it. It appends the arguments, which are
// parts of text, to args, and returns the size of the command; 0 means that it is
// incomplete. An empty command has no arguments.
func parse(text string, args []string) (all []string, size int, err error) {
	if text == "" {
		return args, 0, nil
	}
	if text[0] != '*' {
		return parseLine(text, args)
	}
	count, at, err := parseHeader(text, 0, "an array", maxArgs)
	if at == 0 || err != nil {
		return args, 0, err
	}
	for range count {
		if at == len(text) {
			return args, 0, nil
		}
		if text[at] != '$' {
			return args, 0, protocolError(fmt.Sprintf("expected '$', got %q; "+
				"send commands as arrays of bulk strings", text[at:at+1]))
		}
		n, start, err := parseHeader(text, at, "a bulk string", maxCommand)
		if start == 0 || err != nil {
			return args, 0, err
		}
		end := start + n + len("\r\n")
		switch {
		case n < 0:
			return args, 0, protocolError("an argument is null; send a bulk string")
		case end > maxCommand:
			return args, 0, errTooLong
		case len(text) < end:
			return args, 0, nil
		case text[end-2:end] != "\r\n":
			return args, 0, protocolError("a bulk string is not followed by CR LF; " +
				"does its length count bytes?")
		}
		args = append(args, text[start:start+n])
		at = end
	}
	return args, at, nil
}

var errUnauthorized = protocolError(fmt.Sprintf("%d KiB were sent before the right password; "+
	"send AUTH with the token of this listener first",
	maxUnauthorized>>10))

var errTooLong = protocolError(fmt.Sprintf("a command is longer than %d KiB; no command of Weir is",
	maxCommand>>10))

// parseHeader parses the number after the type at text[at], and returns the start of the
// next line; 0 means that the number is incomplete. The result −1 stands for null.
func parseHeader(text string, at int, what string, most int) (n, next int, err error) {
	const longest = len("$-12345678\r\n")
	line := text[at+1 : min(len(text), at+longest)]
	end := strings.IndexByte(line, '\n')
	if end < 0 && len(line) < longest-1 {
		return 0, 0, nil
	}
	if end < 1 || line[end-1] != '\r' {
		return 0, 0, protocolError("the length of " + what +
			" is not a short number that ends with CR LF")
	}
	if line[:end-1] == "-1" {
		return -1, at + 1 + end + 1, nil
	}
	count, err := strconv.ParseUint(line[:end-1], 10, 32)
	switch {
	case end > 1 && err != nil:
		return 0, 0, protocolError("the length of " + what + " is not a number")
	case end == 1 || count > uint64(most):
		return 0, 0, protocolError(fmt.Sprintf("the length of %s is not 0 to %d", what, most))
	}
	return int(count), at + 1 + end + 1, nil
}

// parseLine parses a command in the form of a line of words.
func parseLine(text string, args []string) ([]string, int, error) {
	end := strings.IndexByte(text[:min(len(text), maxInline)], '\n')
	if end < 0 {
		if len(text) >= maxInline {
			return args, 0, protocolError("too long a line; " +
				"send commands as arrays of bulk strings")
		}
		return args, 0, nil
	}
	line := strings.TrimSuffix(text[:end], "\r")
	if strings.ContainsAny(line, `"'`) {
		return args, 0, protocolError("quotes are not supported in a line; " +
			"send an array of bulk strings")
	}
	isBlank := func(c rune) bool { return c == ' ' || c == '\t' }
	for word := range strings.FieldsFuncSeq(line, isBlank) {
		if len(args) == maxArgs {
			return args, 0, protocolError(fmt.Sprintf("more than %d words in a line", maxArgs))
		}
		args = append(args, word)
	}
	// A page in a browser can send a form to any port. Its commands must not run.
	if isHTTP(args) {
		return args, 0, protocolError("this is HTTP; Weir serves it at another address (--listen)")
	}
	return args, end + 1, nil
}

// isHTTP reports whether the words of a line are the first line or a field of an HTTP request.
func isHTTP(words []string) bool {
	if len(words) == 0 {
		return false
	}
	last := words[len(words)-1]
	return strings.HasPrefix(last, "HTTP/") || strings.HasSuffix(words[0], ":")
}

// appendHeader appends a number behind the letter of its type.
func appendHeader(b []byte, kind byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, kind), n, 10), "\r\n"...)
}

// appendInt appends an integer.
func appendInt(b []byte, n int64) []byte { return appendHeader(b, ':', n) }

// appendBool appends 1 for true and 0 for false.
func appendBool(b []byte, v bool) []byte {
	if v {
		return appendInt(b, 1)
	}
	return appendInt(b, 0)
}

// appendBulk appends a bulk string, which may hold any bytes.
func appendBulk(b []byte, s string) []byte {
	b = append(appendHeader(b, '$', int64(len(s))), s...)
	return append(b, "\r\n"...)
}

// appendArray appends the start of an array; its n elements follow.
func appendArray(b []byte, n int) []byte { return appendHeader(b, '*', int64(n)) }

// appendMap appends the start of a map of n pairs. RESP2 has no maps: there it is an
// array of twice as many elements.
func appendMap(b []byte, protocol, n int) []byte {
	if protocol < 3 {
		return appendArray(b, 2*n)
	}
	return appendHeader(b, '%', int64(n))
}

// appendOK appends +OK.
func appendOK(b []byte) []byte { return append(b, "+OK\r\n"...) }

// oneLine replaces line ends: an error is one line.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// appendError appends an error: a code in capitals, by which clients tell errors apart,
// and a text.
func appendError(b []byte, code, text string) []byte {
	b = append(append(append(b, '-'), code...), ' ')
	b = append(b, oneLine.Replace(text)...)
	return append(b, "\r\n"...)
}

// codeInput is the code of a wrong command; nothing was charged (R14).
const codeInput = "ERR"

// fail appends the reply for an error. It counts bad input and logs errors of the store.
func (s *Server) fail(out []byte, err error) []byte {
	f := calls.Fail(err, &s.Rejected, s.config.Errors)
	return appendError(out, f.Code, f.Text)
}
