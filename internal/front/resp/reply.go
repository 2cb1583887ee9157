package resp

import (
	"strconv"
	"strings"
)

// appendInt appends an integer.
func appendInt(b []byte, n int64) []byte {
	b = append(b, ':')
	b = strconv.AppendInt(b, n, 10)
	return append(b, "\r\n"...)
}

// appendBool appends 1 for true and 0 for false.
func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, ":1\r\n"...)
	}
	return append(b, ":0\r\n"...)
}

// appendBulk appends a bulk string, which may hold any bytes.
func appendBulk(b []byte, s string) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, "\r\n"...)
	b = append(b, s...)
	return append(b, "\r\n"...)
}

// appendArray appends the start of an array; its n elements follow.
func appendArray(b []byte, n int) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

// appendMap appends the start of a map of n pairs. RESP2 has no maps: there it is an
// array of twice as many elements.
func appendMap(b []byte, protocol, n int) []byte {
	if protocol < 3 {
		return appendArray(b, 2*n)
	}
	b = append(b, '%')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

// appendNull appends null.
func appendNull(b []byte, protocol int) []byte {
	if protocol < 3 {
		return append(b, "$-1\r\n"...)
	}
	return append(b, "_\r\n"...)
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
