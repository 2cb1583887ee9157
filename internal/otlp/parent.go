package otlp

import (
	"encoding/hex"
	"math/rand/v2"
)

// parent is what a W3C traceparent says: https://www.w3.org/TR/trace-context/.
type parent struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
}

// parseParent reads 00-TRACE-SPAN-FLAGS. Later versions may have more behind it;
// anything else is no parent at all, as the standard says.
func parseParent(text string) (p parent, ok bool) {
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

// decodeLower decodes hexadecimal digits, of which the standard allows lower case only.
func decodeLower(to []byte, text string) bool {
	for i := range len(text) {
		if 'A' <= text[i] && text[i] <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// randomID fills an id, which is never all zeros. It is no secret, so it need not be
// hard to guess.
func randomID(id []byte) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	id[0] |= 1
}
