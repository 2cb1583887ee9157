package resp

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/calls"
)

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
	f := calls.Fail(err, &s.Counts.Rejected, s.config.Errors)
	return appendError(out, f.Code, f.Text)
}
