package reserve

import (
	"encoding/base64"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
)

// Name identifies a reservation. As a text it is base64url without padding: a version and the
// number of dimensions, a byte each, then the policy, the id, the name and the value of plan-by, and
// each dimension with its value, each behind its length.
type Name struct {
	Policy string
	ID     string        // 1 … weir.MaxIDBytes bytes; "" = it holds nothing
	Plan   enforce.Pair  // the value that chose a plan, if it is no dimension; zero = none did
	Pairs  enforce.Pairs // the dimensions
}

// version is the first byte of a name. Later versions of Weir read it.
const version = 1

// String returns the text of the name.
func (n Name) String() string {
	b := []byte{version, byte(len(n.Pairs))}
	for _, text := range []string{n.Policy, n.ID, n.Plan.Name, n.Plan.Value} {
		b = keyenc.Append(b, text)
	}
	for _, p := range n.Pairs {
		b = keyenc.Append(keyenc.Append(b, p.Name), p.Value)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// errMalformed rejects a text that is no name.
var errMalformed = calls.BadInput(`the reservation is malformed: it was cut off or changed; send the text of "reservation" in the answer to /v1/reserve, or the tenth element of the answer to WEIR.RESERVE, as it is`)

// Parse returns the name of a text. Another text than that of a name is bad input.
func Parse(text string) (n Name, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 2 || b[0] != version || strings.ContainsAny(text, "\r\n") { // the decoder skips line endings
		return n, errMalformed
	}
	const fields = 4
	texts, ok := keyenc.Values(b[2:])
	if !ok || len(texts) != fields+2*int(b[1]) || len(texts[1]) > weir.MaxIDBytes {
		return n, errMalformed
	}
	n = Name{Policy: texts[0], ID: texts[1], Plan: enforce.Pair{Name: texts[2], Value: texts[3]}}
	for i := fields; i < len(texts); i += 2 {
		var problem string
		if n.Pairs, problem = n.Pairs.Add(texts[i], texts[i+1]); problem != "" {
			return Name{}, errMalformed
		}
	}
	return n, nil
}
