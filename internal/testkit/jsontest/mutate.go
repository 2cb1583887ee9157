package jsontest

import (
	"math/rand/v2"
	"strings"
)

// Words are the texts that mutations insert.
var Words = strings.Fields(`{ } [ ] : , " \ \" \\ \/ \b \f \n \r \t \u \u0041 \ud83d \ude00 \uDBFE \uD800 - -0 0 00 1 -1 1. 1.5
	1e3 1E+3 0.0 9007199254740991 9007199254740992 9223372036854775807 9223372036854775808 -9223372036854775808
	-9223372036854775809 18446744073709551616 null true false nul {} [] "" "x" "a":"x" "x":1 é 😀 ` + "\U0010fe41 \xff")

// Mutate changes a valid text a little: it inserts up to three words or random bytes, or
// overwrites parts with them.
func Mutate(r *rand.Rand, text string, words ...string) []byte {
	b := []byte(text)
	for range 1 + r.IntN(3) {
		word := []byte{byte(r.IntN(256))}
		if i := r.IntN(4 * (len(Words) + len(words)) / 3); i < len(Words) {
			word = []byte(Words[i])
		} else if i -= len(Words); i < len(words) {
			word = []byte(words[i])
		}
		i := r.IntN(len(b) + 1)
		j := i
		if r.IntN(2) == 0 {
			j = min(len(b), i+r.IntN(12))
		}
		b = append(b[:i:i], append(word, b[j:]...)...)
	}
	return b
}
