package topkeys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/shorten"
)

// maxValue is the most bytes that are kept of a value.
const maxValue = 64

// secret is mixed into hashes, so that trying all addresses does not reveal one.
var secret = sync.OnceValue(func() (s [32]byte) {
	rand.Read(s[:])
	return s
})

// appendKey appends each value behind a byte of twice its length, plus 1 for a value
// that was cut.
func (s *Sketch) appendKey(b []byte, key *weir.Key) []byte {
	for i := range key.Len() {
		v, cut := key.Value(i), byte(0)
		if s.form == Hashed {
			v = Hash(v)
		} else if len(v) > maxValue {
			v, cut = shorten.Cut(v, maxValue), 1
		}
		b = append(append(b, byte(len(v))<<1|cut), v...)
	}
	return b
}

// Hash returns 16 hexadecimal digits for a value of a key. Equal values have equal hashes
// within one process only.
func Hash(v string) string {
	salt := secret()
	sum := sha256.Sum256(append(salt[:], v...))
	return hex.EncodeToString(sum[:8])
}

// values is the inverse of appendKey.
func values(b []byte) (values []string, clipped bool) {
	for len(b) > 0 {
		n := int(b[0] >> 1)
		clipped = clipped || b[0]&1 == 1
		values = append(values, string(b[1:1+n]))
		b = b[1+n:]
	}
	return values, clipped
}
