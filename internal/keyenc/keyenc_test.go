package keyenc

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func encode(values ...string) []byte {
	var b []byte
	for _, v := range values {
		b = Append(b, v)
	}
	return b
}

// decode returns the values of an encoding, and reports whether it is whole.
func decode(b []byte) (values []string, ok bool) {
	for len(b) > 0 {
		var v []byte
		if v, b, ok = Next(b); !ok {
			return nil, false
		}
		values = append(values, string(v))
	}
	return values, true
}

// TestDecodeReturnsTheTuple: every tuple comes back unchanged, also with empty and long
// values and with bytes that look like lengths.
func TestDecodeReturnsTheTuple(t *testing.T) {
	for _, values := range [][]string{
		nil, {""}, {"", ""}, {"a", "bc"}, {"ab", "c"}, {"\x01a"}, {"\x01", "a"}, {"\x00"},
		{strings.Repeat("x", 127)}, {strings.Repeat("x", 128), "y"}, {strings.Repeat("z", 1<<15)},
	} {
		got, ok := decode(encode(values...))
		if !ok || !slices.Equal(got, values) {
			t.Errorf("%.40q: got %.40q, %v", values, got, ok)
		}
	}
}

// TestNextRejectsPartialValues: an encoding that was cut has no value, and no panic.
func TestNextRejectsPartialValues(t *testing.T) {
	whole := encode(strings.Repeat("x", 200))
	for n := range len(whole) {
		if v, rest, ok := Next(whole[:n]); ok || v != nil || rest != nil {
			t.Errorf("the first %d bytes: got %q, %q, %v; want none", n, v, rest, ok)
		}
	}
	huge := bytes.Repeat([]byte{0xff}, 12) // a length beyond 64 bits
	if _, _, ok := Next(huge); ok {
		t.Error("a length beyond 64 bits was accepted")
	}
	if _, _, ok := Next([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}); ok {
		t.Error("a length beyond the slice was accepted")
	}
}

// FuzzAppend: two tuples have the same encoding only if they are equal.
func FuzzAppend(f *testing.F) {
	f.Add("a", "bc", "ab", "c")
	f.Add("", "\x00", "\x00", "")
	f.Add("\x01a", "", "", "\x01a")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if same := a == c && b == d; bytes.Equal(encode(a, b), encode(c, d)) != same {
			t.Errorf("(%q, %q) and (%q, %q): the encodings do not tell them apart", a, b, c, d)
		}
	})
}
