package httpapi

import (
	"net/http"
	"testing"
)

func TestIdempotencyKeyUnescapesQuotes(t *testing.T) {
	if id, err := idempotencyKey(http.Header{idempotencyField: {`"a \"b\" \\"`}}, ""); id != `a "b" \` || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}
