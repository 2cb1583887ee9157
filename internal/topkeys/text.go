package topkeys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"unicode/utf8"

	"github.com/weirlimit/weir"
)

// maxValue is how many bytes of a value are kept, at most.
const maxValue = 64

// secret makes hashes of this process useless to whoever tries all addresses.
var secret = sync.OnceValue(func() (s [32]byte) {
	rand.Read(s[:])
	return s
})

// appendKey appends each value behind its length, which is odd for one that was cut.
func (s *Sketch) appendKey(b []byte, key *weir.Key) []byte {
	for i := range key.Len() {
		v, cut := key.Value(i), byte(0)
		if s.form == Hashed {
			v = hash(v)
		} else if len(v) > maxValue {
			v, cut = clip(v), 1
		}
		b = append(append(b, byte(len(v))<<1|cut), v...)
	}
	return b
}

// hash is 16 hexadecimal digits.
func hash(v string) string {
	salt := secret()
	h := sha256.New()
	h.Write(salt[:])
	h.Write([]byte(v))
	var sum [sha256.Size]byte
	return hex.EncodeToString(h.Sum(sum[:0])[:8])
}

// clip cuts between characters.
func clip(v string) string {
	end := maxValue
	for end > maxValue-utf8.UTFMax && !utf8.RuneStart(v[end]) {
		end--
	}
	return v[:end]
}

// values reads what appendKey wrote.
func values(b []byte) (values []string, clipped bool) {
	for len(b) > 0 {
		n := int(b[0] >> 1)
		clipped = clipped || b[0]&1 == 1
		values = append(values, string(b[1:1+n]))
		b = b[1+n:]
	}
	return values, clipped
}
