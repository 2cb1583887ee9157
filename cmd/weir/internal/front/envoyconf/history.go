package envoyconf

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/keyenc"
)

// Domains and keys may be any text, while names of policies and limits are short and
// plain. So the name of a history has some readable letters and a hash of the whole.

// policyPrefix begins the policy names of domains.
const policyPrefix = "envoy."

// PolicyName returns the policy name under which the histories of a domain are stored.
// Different domains have different names.
func PolicyName(domain string) string {
	if name := policyPrefix + domain; weir.ValidName(domain) && weir.ValidName(name) {
		return name
	}
	return policyPrefix + "." + digest(26, "domain", domain) // no valid domain begins with a dot
}

// HistoryName returns the name of the histories of descriptors with those keys. kind
// separates names of different uses. shared holds, for each key, the pattern of its values if they
// share histories, otherwise "".
func HistoryName(kind string, keys, shared []string) string {
	parts := []string{kind}
	for i, key := range keys {
		parts = append(parts, key, shared[i])
	}
	return readable(keys) + "-" + digest(20, parts...)
}

// digest returns the first letters of a hash of the parts. Each part is hashed behind its
// length. 20 letters are 100 bits.
func digest(letters int, parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = keyenc.Append(b, p)
	}
	sum := sha256.Sum256(b)
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:letters]
}

// plainLetters are the letters that stay in a name.
const plainLetters = "abcdefghijklmnopqrstuvwxyz0123456789_-"

// readable returns up to 24 letters of the last key.
func readable(keys []string) string {
	const most = 24
	plain := ""
	if len(keys) > 0 {
		plain = strings.Map(func(c rune) rune {
			if strings.ContainsRune(plainLetters, c) {
				return c
			}
			return -1
		}, strings.ToLower(keys[len(keys)-1]))
	}
	plain = strings.TrimLeft(plain, "_-")
	return cmp.Or(plain[:min(len(plain), most)], "rule")
}
