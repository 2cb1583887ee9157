// Package keyenc encodes tuples of strings as one string: each value after its length.
// Two different tuples never have the same encoding, for any bytes (R14). A separator
// between values would need escapes for that.
//
// internal/spec encodes keys by other means, because it shares no code with the engines.
package keyenc

import "encoding/binary"

// The bounds of a key (R14).
const (
	MaxValueBytes = 1 << 10 // bytes of one value
	MaxValues     = 16      // values of a key, which are the dimensions of a policy
)

// Append appends the length of value as a uvarint, and value.
func Append[T string | []byte](b []byte, value T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// Next splits the first value off b. It reports whether b began with a whole value; if not,
// value and rest are nil. value shares the memory of b.
func Next(b []byte) (value, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	end := size + int(n)
	return b[size:end:end], b[end:], true
}

// Values returns all values of b. It reports false if b is no sequence of whole values.
func Values(b []byte) (values []string, ok bool) {
	for len(b) > 0 {
		value, rest, ok := Next(b)
		if !ok {
			return nil, false
		}
		values, b = append(values, string(value)), rest
	}
	return values, true
}
