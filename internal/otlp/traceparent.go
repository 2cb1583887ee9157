package otlp

import (
	"encoding/hex"
	"math/rand/v2"
)

// parentContext is the content of a W3C traceparent: https://www.w3.org/TR/trace-context/.
type parentContext struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
}

// parseTraceparent reads 00-TRACE-SPAN-FLAGS. Later versions may append more. By the
// standard, any other text is ignored: ok is false.
func parseTraceparent(text string) (p parentContext, ok bool) {
	if len(text) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return p, false
	}
	var version, flags [1]byte
	for _, f := range []struct {
		to   []byte
		text string
	}{{version[:], text[:2]}, {p.trace[:], text[3:35]}, {p.span[:], text[36:52]}, {flags[:], text[53:55]}} {
		if !decodeLower(f.to, f.text) {
			return p, false
		}
	}
	later := version[0] > 0 && (len(text) == 55 || text[55] == '-')
	if version[0] == 0xff || version[0] == 0 && len(text) != 55 || version[0] > 0 && !later {
		return p, false
	}
	p.sampled = flags[0]&1 == 1
	return p, p.trace != [16]byte{} && p.span != [8]byte{}
}

// decodeLower decodes hexadecimal digits; the standard allows only lower case.
func decodeLower(to []byte, text string) bool {
	for i := range len(text) {
		if 'A' <= text[i] && text[i] <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// randomID fills an id with a random number other than 0. It is not a secret.
func randomID(id []byte) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	id[0] |= 1
}
