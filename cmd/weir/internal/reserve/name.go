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
// each dimension with its value, each behind its length. That of an inline policy has the number of
// limits as a third byte, and the limits at its end.
type Name struct {
	Policy string
	ID     string        // 1 … weir.MaxIDBytes bytes; "" = a shadow granted it, and it holds nothing
	Plan   enforce.Pair  // plan-by and its value, unless that is a dimension; zero = no plan
	Pairs  enforce.Pairs // the dimensions
	Limits []string      // the lines of an inline policy, as sent; nil = a policy of the file
}

// The first byte of a name is its version. Later versions of Weir read both.
const (
	version       = 1
	versionInline = 2
)

// fields is the number of texts in a name before the dimensions.
const fields = 4

// String returns the text of the name.
func (n Name) String() string {
	b := []byte{version, byte(len(n.Pairs))}
	if n.Limits != nil {
		b[0] = versionInline
		b = append(b, byte(len(n.Limits)))
	}
	for _, text := range []string{n.Policy, n.ID, n.Plan.Name, n.Plan.Value} {
		b = keyenc.Append(b, text)
	}
	for _, p := range n.Pairs {
		b = keyenc.Append(keyenc.Append(b, p.Name), p.Value)
	}
	for _, line := range n.Limits {
		b = keyenc.Append(b, line)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// errMalformed rejects a text that is no name.
var errMalformed = calls.BadInput(`the reservation is malformed: it was cut off or changed; ` +
	`send the text of "reservation" in the answer to /v1/reserve, ` +
	`or the tenth element of the answer to WEIR.RESERVE, as it is`)

// Parse returns the name of a text. Another text than that of a name is bad input.
func Parse(text string) (n Name, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // the decoder skips line endings
		return n, errMalformed
	}
	pairs, limits, b, ok := cutHeader(b)
	texts, whole := keyenc.Values(b)
	if !ok || !whole || len(texts) != fields+2*pairs+limits || len(texts[1]) > weir.MaxIDBytes {
		return n, errMalformed
	}
	n = Name{Policy: texts[0], ID: texts[1], Plan: enforce.Pair{Name: texts[2], Value: texts[3]}}
	for i := range pairs {
		at := fields + 2*i
		var problem string
		if n.Pairs, problem = n.Pairs.Add(texts[at], texts[at+1]); problem != "" {
			return Name{}, errMalformed
		}
	}
	if limits > 0 {
		n.Limits = texts[fields+2*pairs:]
	}
	return n, nil
}

// cutHeader returns the numbers of dimensions and of limits at the beginning of a name, and the rest.
func cutHeader(b []byte) (pairs, limits int, rest []byte, ok bool) {
	switch {
	case len(b) >= 2 && b[0] == version:
		return int(b[1]), 0, b[2:], true
	case len(b) >= 3 && b[0] == versionInline && b[2] > 0:
		return int(b[1]), int(b[2]), b[3:], true
	}
	return 0, 0, nil, false
}
