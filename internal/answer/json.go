package answer

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON appends JSON to Text and sets the commas. Each method appends one value: with a name a
// member of the open object, without one an element of the open array or the outermost value.
// Names are constants that need no escapes; Pair is for other names.
//
// encoding/json is no alternative: it allocates, and its escapes leave characters that act in a
// terminal.
type JSON struct {
	Text  []byte
	comma bool // the next value needs a comma before it
}

// begin returns Text, ready for a value: with a comma after a previous value, and with the name of
// a member.
func (j *JSON) begin(name string) []byte {
	b := j.Text
	if j.comma {
		b = append(b, ',')
	}
	j.comma = true
	if name != "" {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
	}
	return b
}

// Object opens an object.
func (j *JSON) Object(name string) { j.open(name, '{') }

// EndObject closes an object.
func (j *JSON) EndObject() { j.close('}') }

// Array opens an array.
func (j *JSON) Array(name string) { j.open(name, '[') }

// EndArray closes an array.
func (j *JSON) EndArray() { j.close(']') }

func (j *JSON) open(name string, bracket byte) {
	j.Text = append(j.begin(name), bracket)
	j.comma = false
}

func (j *JSON) close(bracket byte) {
	j.Text = append(j.Text, bracket)
	j.comma = true
}

// Bool writes true or false.
func (j *JSON) Bool(name string, v bool) { j.Text = strconv.AppendBool(j.begin(name), v) }

// Int writes a whole number.
func (j *JSON) Int(name string, n int64) { j.Text = strconv.AppendInt(j.begin(name), n, 10) }

// String writes a string. It escapes < > & and the characters that Printable escapes, since they
// could act in a page or a terminal. Bytes that are not UTF-8 become U+FFFD, as in encoding/json.
func (j *JSON) String(name, s string) { j.Text = appendString(j.begin(name), s) }

// Strings writes an array of strings.
func (j *JSON) Strings(name string, all []string) {
	j.Array(name)
	for _, s := range all {
		j.String("", s)
	}
	j.EndArray()
}

// Pair writes a member with a name of any characters, such as a dimension.
func (j *JSON) Pair(name, value string) {
	b := appendString(j.begin(""), name)
	j.Text = appendString(append(b, ':'), value)
}

// Instant writes an instant as AppendInstant does, in quotes.
func (j *JSON) Instant(name string, t time.Time) {
	b := AppendInstant(append(j.begin(name), '"'), t)
	j.Text = append(b, '"')
}

// AppendInstant appends t in UTC with six digits of the second: "2026-11-27T09:08:07.123456Z".
func AppendInstant(b []byte, t time.Time) []byte {
	t = t.UTC()
	b = t.AppendFormat(b, time.RFC3339) // several times as fast as a layout with digits
	b = b[:len(b)-len("Z")]
	point := len(b)
	b = strconv.AppendInt(b, 1e6+int64(t.Nanosecond()/1000), 10)
	b[point] = '.' // in the place of the 1 that kept the zeros behind it
	return append(b, 'Z')
}

// appendString appends s as a JSON string, as [JSON.String] describes.
func appendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		i += size
		if c >= utf8.RuneSelf && unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			continue
		}
		b = append(b, s[start:i-size]...)
		start = i
		if short := strings.IndexRune("\"\\\n\r\t", r); short >= 0 {
			b = append(b, '\\', `"\nrt`[short])
		} else {
			b = appendEscape(b, r)
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// plain reports which bytes are characters of ASCII that need no escape. A table is faster than
// comparisons: strings are most of an answer.
var plain = func() (table [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		table[c] = strings.IndexByte(`"\<>&`, c) < 0
	}
	return table
}()

// appendEscape appends the escape of a character, \uXXXX or two of them.
func appendEscape(b []byte, r rune) []byte {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}

// Printable escapes characters that could act in a terminal or change how a line reads:
// control characters except tabs and line ends, marks of writing direction, and invisible
// characters, also spaces that look like others. Each becomes an escape of JSON such as
// \u202e, and invalid UTF-8 becomes U+FFFD. The meaning of JSON text stays, since such
// characters are only in its strings. Text without any is returned as it is.
func Printable(text []byte) []byte {
	var b []byte
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if ' ' <= c && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if c < utf8.RuneSelf || r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			b = appendEscape(append(b, text[start:i]...), r)
			start = i + size
		}
		i += size
	}
	if start == 0 {
		return text
	}
	return append(b, text[start:]...)
}
