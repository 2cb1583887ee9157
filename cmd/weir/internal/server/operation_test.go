package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// named sends a header field as often as there are values.
func named(field string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(field)] = values }
}

// TestIdempotencyKeyHeaderEqualsID: the header field Idempotency-Key, bare or in the quotes of
// the draft, works like the member "id".
func TestIdempotencyKeyHeaderEqualsID(t *testing.T) {
	for _, call := range []string{"check", "record", "reserve"} {
		s, _ := newServer(t, nil)
		play(t, s, strings.ReplaceAll(`
			let two "policy":"sms","key":{"phone":"+1"},"n":2
			POST /v1/CALL {$two}
			  Idempotency-Key: a
			=> 200 …"remaining":8,…"at":"$at",…
			! "replayed"
			POST /v1/CALL {$two}
			  Idempotency-Key: "a"
			=> 200 …"at":"$at",…"replayed":true,…
			POST /v1/CALL {$two,"id":"a"} => 200 …"replayed":true,…
			POST /v1/CALL {$two,"id":"a"}
			  Idempotency-Key: a
			=> 200 …"replayed":true,…
			POST /v1/peek {$two} => 200 …"remaining":8,…
		`, "CALL", call))
	}
}

func TestBadIdempotencyKeysChargeNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	for name, values := range map[string][]string{
		"empty": {""}, "empty quotes": {`""`}, "two lines": {"a", "a"}, "no end": {`"a`}, "text behind": {`"a"b`}, "parameters": {`"a";q=1`},
		"bad escape": {`"\a"`}, "escape at the end": {`"a\`}, "a byte of 0xff": {"a\xff"}, "too long": {strings.Repeat("x", weir.MaxIDBytes+1)},
	} {
		for _, path := range []string{"/v1/check", "/v1/record", "/v1/reserve"} {
			r := ask(s, "POST", path, `{"policy":"sms","key":{"phone":"+1"}}`, named("Idempotency-Key", values...))
			wantProblem(t, name, r, 400, "Idempotency-Key")
		}
	}
	play(t, s, `
		let sms "policy":"sms","key":{"phone":"+1"}
		POST /v1/check {$sms,"id":"b"}
		  Idempotency-Key: a
		=> 400 …two operations…
		POST /v1/check {$sms,"id":""} => 400 …1 to 128 bytes…
		POST /v1/check {$sms,"id":"`+strings.Repeat("x", weir.MaxIDBytes+1)+`"} => 400 …1 to 128 bytes…
		POST /v1/check {$sms,"id":7} => 400 …must be a string…
		POST /v1/peek {$sms,"id":"a"} => 400 …unknown member…takes policy, key, n…
		POST /v1/peek {$sms} => 200 …"remaining":10,…
	`)
}

// TestGateIgnoresClientIDs: a gate reads an id only from the header field that the
// operator has configured. Otherwise a client could repeat one id and pass for ever.
func TestGateIgnoresClientIDs(t *testing.T) {
	s, _ := newServer(t, nil)
	for i, want := range []int{204, 204, 429} {
		if r := ask(s, "POST", "/gate/search?ip=1", "", named("Idempotency-Key", "mine")); r.status != want {
			t.Errorf("call %d with a client's id: %d, want %d", i+1, r.status, want)
		}
	}
	s, _ = newServer(t, nil, func(c *Config) { c.GateID = "x-request-id" })
	play(t, s, `
		GET /gate/search?ip=1
		  X-Request-Id: 7
		=> 204
		  RateLimit: "search";r=1;…
		`+strings.Repeat("GET /gate/search?ip=1\n  X-Request-Id: 7\n=> 204\n  RateLimit:\n", 4)+`
		GET /gate/search?ip=1
		  X-Request-Id: 8
		=> 204
		GET /gate/search?ip=1 => 429 …
		GET /gate/search?ip=1
		  X-Request-Id: 8
		  X-Request-Id: 9
		=> 400 …more than once…
	`)
	if _, err := New(Config{Policies: file(t), GateID: "X Request"}); err == nil {
		t.Error("a field with a space")
	}
}

// TestRepeatedReservationIsChargedOnce: a client that lost the answer to /v1/reserve can
// repeat the call. It gets an id of the same reservation, and any of its ids settles it
// once.
func TestRepeatedReservationIsChargedOnce(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let six "policy":"sms","key":{"phone":"+1"},"n":6
		POST /v1/reserve {$six,"id":"job-1"} => 200 {"allowed":true,…"reservation":"$first"…
		POST /v1/reserve {$six,"id":"job-1","ttl_ms":5000} => 200 …"granted":6,…"replayed":true,…"reservation":"$again"…
		POST /v1/settle {"reservation":"$again","actual":2} => 200 …
		POST /v1/settle {"reservation":"$first","actual":2} => 200 …"refunded":4…
		POST /v1/settle {"reservation":"$first","actual":3} => 409 …settled already…
		POST /v1/peek {$six} => 200 …"remaining":8,…
		POST /v1/reserve {$six,"id":"job-2"} => 200 {"allowed":true,…"reservation":"$other"…
		POST /v1/release {"reservation":"$other"} => 200 …
	`)
}

// TestRepeatedRefundIsMadeOnce: a refund with an id, in the body or as a header field, is
// made once.
func TestRepeatedRefundIsMadeOnce(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let sms "policy":"sms","key":{"phone":"+1"}
		POST /v1/check {$sms,"n":9} => 200 …"at":"$at",…
		`+strings.Repeat(`
		POST /v1/refund {$sms,"at":"$at","n":4}
		  Idempotency-Key: a
		=> 200 …"refunded":4}
		POST /v1/refund {$sms,"at":"$at","n":3,"id":"b"} => 200 …"refunded":3}`, 2)+`
		POST /v1/refund {$sms,"at":"$at","n":1,"id":"a"} => 400 …a refund of 4 units…
		POST /v1/refund {$sms,"at":"$at","n":1,"id":"b"}
		  Idempotency-Key: a
		=> 400 …two operations…
		POST /v1/peek {$sms} => 200 …"remaining":8,…
	`)
}

// TestRepeatedIDsAreChargedOnce: a check or a record with an id can be sent again, and is
// charged once.
func TestRepeatedIDsAreChargedOnce(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let two "policy":"sms","key":{"phone":"+1"},"n":2
		POST /v1/check {$two,"id":"order-7"} => 200 {"allowed":true,…"retry_after_ms":0,…"at":"$at",…
		! "replayed"
		POST /v1/check {$two,"id":"order-7"}
		=> 200 {"allowed":true,…"granted":2,"remaining":8,"retry_after_ms":0,…"at":"$at",…"replayed":true,…charged once…"limits":[]}
		POST /v1/record {$two,"id":"order-8"} => 200 …
		POST /v1/record {$two,"id":"order-8"} => 200 …
		POST /v1/peek {$two} => 200 …"remaining":6,…
		metric weir_decisions_total{outcome="allowed",policy="sms",protocol="http"} 1
		POST /v1/check {"policy":"sms","key":{"phone":"+1"},"n":3,"id":"order-7"} => 400 …bad operation id…an id of its own…
	`)
}
