package envoyconf

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/keyenc"
)

// Names of histories are made of what configuration and requests name them by,
// which may be any text, while names of policies and limits are short and plain:
// so a name is some readable letters and a hash of the whole.

// policyPrefix begins the policy names of domains.
const policyPrefix = "envoy."

// PolicyName is what the histories of a domain stand under. Different domains have
// different ones.
func PolicyName(domain string) string {
	if name := policyPrefix + domain; weir.ValidName(domain) && weir.ValidName(name) {
		return name
	}
	return policyPrefix + "." + digest(26, "domain", domain) // no valid domain begins with a dot
}

// HistoryName is the name of the histories of descriptors with those keys. kind
// sets names of different uses apart. shared are the patterns of entries whose
// values share histories, by index; "" stands for the others.
func HistoryName(kind string, keys, shared []string) string {
	parts := make([]string, 0, 1+2*len(keys))
	parts = append(parts, kind)
	for i, key := range keys {
		pattern := ""
		if i < len(shared) {
			pattern = shared[i]
		}
		parts = append(parts, key, pattern)
	}
	return readable(keys) + "-" + digest(20, parts...)
}

// digest is the first letters of a hash of the parts, each of them told apart from
// the next by its length. 20 letters are 100 bits.
func digest(letters int, parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = keyenc.Append(b, p)
	}
	sum := sha256.Sum256(b)
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:letters]
}

// readable is up to 24 letters that remind of the last key.
func readable(keys []string) string {
	const most = 24
	var b []byte
	if len(keys) > 0 {
		for _, c := range []byte(strings.ToLower(keys[len(keys)-1])) {
			plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
			if plain || len(b) > 0 && (c == '_' || c == '-') {
				b = append(b, c)
			}
			if len(b) == most {
				break
			}
		}
	}
	if len(b) == 0 {
		return "rule"
	}
	return string(b)
}
