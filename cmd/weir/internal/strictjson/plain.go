package strictjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// plainText reads the tokens of a text as long as they are plain: ASCII without escapes, whole
// numbers, delimiters, and no mistake. Most calls and lines of traces have no others, and jsontext
// takes three times as long for them (BenchmarkRead). At the first other token jsontext takes over,
// so that every mistake is found by it.
//
// Each token is found by peek and then read by the method for its kind.
type plainText struct {
	b         []byte
	at        int      // bytes of b that were read
	separator byte     // the byte before the next token: ',' or ':'; 0 = none
	names     [][]byte // names in the open objects, the outermost first
	own       int      // the index in names of the first name in the innermost object
	outer     []int    // own of the other open objects, the outermost first
	tokens    int      // tokens that were read
}

// plainNames is the largest number of names that are compared with each other.
const plainNames = 32

// begin starts a text.
func (p *plainText) begin(b []byte) {
	p.b = b
	p.at = 0
	p.separator = 0
	p.names = p.names[:0]
	p.own = 0
	p.outer = p.outer[:0]
	p.tokens = 0
}

// peek returns the kind of the next token and skips the separator before it. It returns 0 for a
// token that is not plain.
func (p *plainText) peek() jsontext.Kind {
	separated := false
	for ; p.at < len(p.b); p.at++ {
		switch kind := byteKinds[p.b[p.at]]; kind {
		case ' ':
		case ',', ':':
			if byte(kind) != p.separator {
				return 0
			}
			p.separator = 0
			separated = true
		case '}', ']':
			if separated || p.separator == ':' {
				return 0
			}
			return kind
		default:
			if p.separator != 0 {
				return 0
			}
			return kind
		}
	}
	return 0
}

// byteKinds are the kinds of plain tokens by their first byte, the separators, and a space for
// all white space. 0 begins no plain token.
var byteKinds = [256]jsontext.Kind{
	'{': '{', '}': '}',
	'[': '[', ']': ']',
	'"': '"', '-': '0',
	'0': '0', '1': '0', '2': '0', '3': '0', '4': '0',
	'5': '0', '6': '0', '7': '0', '8': '0', '9': '0',
	',': ',', ':': ':',
	' ': ' ', '\t': ' ', '\r': ' ', '\n': ' ',
}

// isEnd reports whether the text ends here.
func (p *plainText) isEnd() bool {
	for _, c := range p.b[p.at:] {
		if byteKinds[c] != ' ' {
			return false
		}
	}
	return true
}

// finish counts a token that ends before a byte of b.
func (p *plainText) finish(end int, separator byte) {
	p.at = end
	p.separator = separator
	p.tokens++
}

// delimiter reads the beginning or the end of an object or an array.
func (p *plainText) delimiter() {
	separator := byte(',')
	switch p.b[p.at] {
	case '{':
		p.outer = append(p.outer, p.own)
		p.own = len(p.names)
		separator = 0
	case '[':
		separator = 0
	case '}':
		last := len(p.outer) - 1
		p.names = p.names[:p.own]
		p.own = p.outer[last]
		p.outer = p.outer[:last]
	}
	p.finish(p.at+1, separator)
}

// text reads a string and returns its content. It returns nil and reads nothing if the string is
// not plain.
func (p *plainText) text() []byte {
	content := p.content()
	if content != nil {
		p.finish(p.at+len(content)+len(`""`), ',')
	}
	return content
}

// name is text for the name of a member, which is new in its object.
func (p *plainText) name() []byte {
	name := p.content()
	if name == nil || len(p.names) == plainNames {
		return nil
	}
	for i := p.own; i < len(p.names); i++ {
		if bytes.Equal(p.names[i], name) {
			return nil
		}
	}
	p.names = append(p.names, name)
	p.finish(p.at+len(name)+len(`""`), ':')
	return name
}

// content returns the content of the string that begins here, or nil if it is not plain. A number
// as a name, which is a mistake, is no string either.
func (p *plainText) content() []byte {
	if p.b[p.at] != '"' {
		return nil
	}
	rest := p.b[p.at+1:]
	for i, c := range rest {
		if isTextByte[c] {
			continue
		}
		if c == '"' {
			return rest[:i]
		}
		return nil
	}
	return nil
}

// isTextByte reports which bytes a plain string has. A table takes less time than comparisons.
var isTextByte = func() (table [256]bool) {
	for c := byte(' '); c < 0x80; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// maxDigits is the largest number of digits that 64 bits hold, with any digits.
const maxDigits = 18

// number reads a whole number. It returns false and reads nothing if the number is not plain, such
// as a zero with a sign or with further digits, or one of more than maxDigits.
func (p *plainText) number() (n int64, isPlain bool) {
	first := p.at
	isNegative := p.b[first] == '-'
	if isNegative {
		first++
	}
	end := first
	for end < len(p.b) && isDigit(p.b[end]) {
		n = n*10 + int64(p.b[end]-'0')
		end++
	}
	digits := end - first
	if digits == 0 || digits > maxDigits || end == len(p.b) || !endsNumber(p.b[end]) {
		return 0, false
	}
	if p.b[first] == '0' && (isNegative || digits > 1) {
		return 0, false
	}
	if isNegative {
		n = -n
	}
	p.finish(end, ',')
	return n, true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// endsNumber reports whether a byte may follow a number.
func endsNumber(c byte) bool {
	switch byteKinds[c] {
	case ',', '}', ']', ' ':
		return true
	}
	return false
}
