package otlp

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
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
	if strings.ContainsAny(text[:55], "ABCDEF") { // the standard allows only lower case
		return p, false
	}
	var digits [52]byte
	all := append(append(append(append(digits[:0], text[:2]...), text[3:35]...), text[36:52]...), text[53:55]...)
	var b [26]byte
	if _, err := hex.Decode(b[:], all); err != nil {
		return p, false
	}
	version, flags := b[0], b[25]
	p = parentContext{trace: [16]byte(b[1:17]), span: [8]byte(b[17:25]), sampled: flags&1 == 1}
	switch {
	case version == 0xff, version == 0 && len(text) != 55, len(text) > 55 && text[55] != '-':
		return p, false
	}
	return p, p.trace != [16]byte{} && p.span != [8]byte{}
}

// randomID fills an id with a random number other than 0. It is not a secret.
func randomID(id []byte) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	id[0] |= 1
}
