package server

import (
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/keyenc"
)

// operationField is the header field that names an operation as the member "id" of a
// body does (draft-ietf-httpapi-idempotency-key-header).
const operationField = "Idempotency-Key"

// operationID is the id of an operation by the body, "" for none, and by the header
// field: one of them, or both if they say the same.
func operationID(h http.Header, body string) (string, error) {
	id, given, err := idIn(h, operationField)
	switch {
	case err != nil:
		return "", err
	case !given:
		return body, nil
	case body != "" && body != id:
		return "", badInput(operationField + ` and "id" name two operations; give one of them`)
	}
	return id, nil
}

// idIn reads an id from a header field: a string in quotes, as the draft has it, or the
// bare text that most clients send.
func idIn(h http.Header, field string) (id string, given bool, err error) {
	lines := h.Values(field)
	switch len(lines) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, badInput("the header field " + field + " is there more than once; an operation has one id")
	}
	id, ok := lines[0], true
	if strings.HasPrefix(id, `"`) {
		id, ok = unquoted(id)
	}
	for i := range len(id) {
		ok = ok && ' ' <= id[i] && id[i] <= '~'
	}
	if !ok || id == "" || len(id) > weir.MaxIDBytes {
		return "", true, badInput("the header field " + field + " must hold 1 to " + strconv.Itoa(weir.MaxIDBytes) +
			` characters of ASCII, bare or in "…"; leave it away for an operation without an id`)
	}
	return id, true, nil
}

// unquoted reads a string of RFC 9651: in quotes, with \" and \\ for what ends it.
func unquoted(s string) (text string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}

// checkGateID reports what keeps a header field from naming the operations of gates.
func checkGateID(field string) error {
	for i := range len(field) {
		if c := field[i] | 0x20; !('a' <= c && c <= 'z' || '0' <= field[i] && field[i] <= '9' || field[i] == '-') {
			return badInput(answer.Shown(field) + " is no name of a header field: letters, digits and dashes")
		}
	}
	return nil
}

// markOf names a reservation by its operation and the instant of its grant: whoever
// made the operation again, since the answer was lost, has another id of the same
// reservation, and of all of them one is settled.
func (e *entry) markOf(key *weir.Key, id string, at int64) string {
	b := keyenc.Append(nil, e.Name)
	for i := range key.Len() {
		b = keyenc.Append(b, key.Value(i))
	}
	b = keyenc.Append(b, id)
	sum := sha256.Sum256(strconv.AppendInt(b, at, 10))
	return string(sum[:markBytes])
}
