package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/internal/answer"
)

// idempotencyField is the header field that names an operation, as the member "id" does
// (draft-ietf-httpapi-idempotency-key-header).
const idempotencyField = "Idempotency-Key"

// idempotencyKey returns the idempotency key of the header, or else of the body; "" for
// none. Two different keys are an error.
func idempotencyKey(h http.Header, body string) (string, error) {
	id, given, err := idIn(h, idempotencyField)
	switch {
	case err != nil:
		return "", err
	case !given:
		return body, nil
	case body != "" && body != id:
		return "", calls.BadInput(idempotencyField + ` and "id" name two operations; give one of them`)
	}
	return id, nil
}

// idIn reads an idempotency key from a header field: a string in quotes, as the draft
// requires, or the bare text that most clients send.
func idIn(h http.Header, field string) (id string, given bool, err error) {
	lines := h.Values(field)
	switch len(lines) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, calls.BadInput("the header field " + field + " is there more than once; an operation has one id")
	}
	id, ok := lines[0], true
	if strings.HasPrefix(id, `"`) {
		id, ok = unquoted(id)
	}
	for i := range len(id) {
		ok = ok && ' ' <= id[i] && id[i] <= '~'
	}
	if !ok || id == "" || len(id) > weir.MaxIDBytes {
		return "", true, calls.BadInput("the header field " + field + " must hold 1 to " + strconv.Itoa(weir.MaxIDBytes) +
			` characters of ASCII, bare or in "…"; leave it away for an operation without an id`)
	}
	return id, true, nil
}

// unquoted reads a string of RFC 9651: in quotes, with \" and \\ as escapes.
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

// CheckGateID returns an error for a name that is no header field.
func CheckGateID(field string) error {
	for i := range len(field) {
		if c := field[i] | 0x20; !('a' <= c && c <= 'z' || '0' <= field[i] && field[i] <= '9' || field[i] == '-') {
			return calls.BadInput(answer.Shown(field) + " is no name of a header field: letters, digits and dashes")
		}
	}
	return nil
}
