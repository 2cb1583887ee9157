package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// named sends a header field as often as there are values.
func named(field string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(field)] = values }
}

const smsBody = `{"policy":"sms","key":{"phone":"+1"},"n":2}`

// TestIdempotencyKeyHeaderEqualsID: the header field Idempotency-Key works like the
// member "id".
func TestIdempotencyKeyHeaderEqualsID(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, path := range []string{"/v1/check", "/v1/record", "/v1/reserve"} {
		before := left(t, s)
		id := strings.ReplaceAll(path, "/", "-")
		var first, again decision
		for i, to := range []*decision{&first, &again} {
			field := []string{id, `"` + id + `"`}[i] // bare, and as the draft has it
			r := ask(s, "POST", path, smsBody, named("Idempotency-Key", field))
			if r.status != 200 {
				t.Fatalf("%s: %d %s", path, r.status, r.body)
			}
			var got reserved
			readStrictly(t, r.body, &got)
			*to = got.decision
		}
		if first.Replayed || !again.Replayed || again.At != first.At || left(t, s) != before-2 {
			t.Errorf("%s: first %+v\nagain %+v\nleft %d of %d, want 2 less", path, first, again, left(t, s), before)
		}
	}
	same := `{"policy":"sms","key":{"phone":"+1"},"n":2,"id":"-v1-check"}`
	if got := decide(t, s, "/v1/check", same); !got.Replayed {
		t.Errorf(`"id" of the same operation: %+v, want it repeated`, got)
	}
	if r := ask(s, "POST", "/v1/check", same, named("Idempotency-Key", "-v1-check")); r.status != 200 {
		t.Errorf("both, and the same: %d %s", r.status, r.body)
	}
}

func TestBadIdempotencyKeysChargeNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, bad := range []struct {
		name string
		with []string
	}{
		{"empty", []string{""}}, {"empty quotes", []string{`""`}}, {"two lines", []string{"a", "a"}},
		{"no end", []string{`"a`}}, {"text behind", []string{`"a"b`}}, {"parameters", []string{`"a";q=1`}}, {"bad escape", []string{`"\a"`}},
		{"escape at the end", []string{`"a\`}}, {"a byte of 0xff", []string{"a\xff"}}, {"too long", []string{strings.Repeat("x", weir.MaxIDBytes+1)}},
	} {
		for _, path := range []string{"/v1/check", "/v1/record", "/v1/reserve"} {
			wantProblem(t, bad.name, ask(s, "POST", path, smsBody, named("Idempotency-Key", bad.with...)), 400, "Idempotency-Key")
		}
	}
	wantProblem(t, "another id", ask(s, "POST", "/v1/check", `{"policy":"sms","key":{"phone":"+1"},"id":"b"}`, named("Idempotency-Key", "a")), 400, "two operations")
	if got := left(t, s); got != 10 {
		t.Errorf("bad calls were charged: %d of 10 left", got)
	}
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
	for i := range 5 {
		r := ask(s, "GET", "/gate/search?ip=1", "", named("X-Request-Id", "7"))
		if r.status != 204 || (i > 0) != (r.header["RateLimit"] == nil) {
			t.Errorf("call %d of one operation: %d %v", i+1, r.status, r.header)
		}
	}
	if r := ask(s, "GET", "/gate/search?ip=1", "", named("X-Request-Id", "8")); r.status != 204 {
		t.Errorf("another: %d", r.status)
	}
	if r := ask(s, "GET", "/gate/search?ip=1", ""); r.status != 429 {
		t.Errorf("one without an id: %d, want 429", r.status)
	}
	wantProblem(t, "two", ask(s, "GET", "/gate/search?ip=1", "", named("X-Request-Id", "8", "9")), 400, "more than once")
	if _, err := New(Config{Policies: file(t), GateID: "X Request"}); err == nil {
		t.Error("a field with a space")
	}
}

// TestRepeatedReservationIsChargedOnce: a client that lost the answer to /v1/reserve can
// repeat the call. It gets an id of the same reservation, and any of its ids settles it
// once.
func TestRepeatedReservationIsChargedOnce(t *testing.T) {
	s, _ := newServer(t, nil)
	const body = `{"policy":"sms","key":{"phone":"+1"},"n":6,"id":"job-1"`
	first, again := reserveBy(t, s, body+`}`), reserveBy(t, s, body+`,"ttl_ms":5000}`)
	if first.Reservation == "" || again.Reservation == "" || !again.Replayed || again.Granted != 6 {
		t.Fatalf("%+v\n%+v", first, again)
	}
	if r := ask(s, "POST", "/v1/settle", settleBody(again.Reservation, 2)); r.status != 200 {
		t.Errorf("the second id: %d %s", r.status, r.body)
	}
	if r := ask(s, "POST", "/v1/settle", settleBody(first.Reservation, 2)); r.status != 200 || !strings.Contains(r.body, `"refunded":4`) {
		t.Errorf("the first id, by as many: %d %s", r.status, r.body)
	}
	wantProblem(t, "the first id", ask(s, "POST", "/v1/settle", settleBody(first.Reservation, 3)), 409, "settled already")
	if got := left(t, s); got != 8 {
		t.Errorf("%d of 10 left, want 8", got)
	}
	other := reserveBy(t, s, `{"policy":"sms","key":{"phone":"+1"},"n":6,"id":"job-2"}`)
	if r := ask(s, "POST", "/v1/release", `{"reservation":"`+other.Reservation+`"}`); r.status != 200 {
		t.Errorf("another operation: %d %s", r.status, r.body)
	}
}

// TestRepeatedRefundIsMadeOnce: a refund with an id, in the body or as a header field, is
// made once.
func TestRepeatedRefundIsMadeOnce(t *testing.T) {
	s, _ := newServer(t, nil)
	d := decide(t, s, "/v1/check", `{"policy":"sms","key":{"phone":"+1"},"n":9}`)
	refund := func(id, body string, status int, want string) {
		t.Helper()
		r := ask(s, "POST", "/v1/refund", fmt.Sprintf(`{"policy":"sms","key":{"phone":"+1"},"at":%q,%s}`, d.At, body), named("Idempotency-Key", id))
		if r.status != status || !strings.Contains(r.body, want) {
			t.Errorf("%s by %s: %d %s, want %d %s", body, id, r.status, r.body, status, want)
		}
	}
	for range 2 {
		refund("a", `"n":4`, 200, `"refunded":4`)
		refund("b", `"n":3,"id":"b"`, 200, `"refunded":3`)
	}
	refund("a", `"n":1`, 400, "a refund of 4 units")
	refund("a", `"n":1,"id":"b"`, 400, "two operations")
	if n := left(t, s); n != 8 {
		t.Errorf("%d are left, want 8", n)
	}
}

// TestRepeatedIDsAreChargedOnce: a check or a record with an id can be sent again, and is
// charged once.
func TestRepeatedIDsAreChargedOnce(t *testing.T) {
	s, _ := newServer(t, nil)
	const key = `{"policy":"sms","key":{"phone":"+1"},"n":2`
	first := decide(t, s, "/v1/check", key+`,"id":"order-7"}`)
	again := decide(t, s, "/v1/check", key+`,"id":"order-7"}`)
	if first.Replayed || !again.Replayed || again.At != first.At || again.Granted != 2 || again.Remaining != 8 || again.RetryMS != first.RetryMS {
		t.Errorf("first %+v\nagain %+v, want the same, repeated", first, again)
	}
	if len(again.Limits) != 0 || !strings.Contains(again.Why, "charged once") {
		t.Errorf("a repeated answer has limits %+v and why %q, want no limits, and a sentence that it is charged once", again.Limits, again.Why)
	}
	for range 2 {
		decide(t, s, "/v1/record", key+`,"id":"order-8"}`)
	}
	if left := decide(t, s, "/v1/peek", key+`}`).Remaining; left != 6 {
		t.Errorf("%d are left of 10, want 6", left)
	}
	if r := ask(s, "GET", "/metrics", ""); !strings.Contains(r.body, `weir_decisions_total{outcome="allowed",policy="sms",protocol="http"} 1`+"\n") {
		t.Errorf("want one attempt allowed in\n%s", r.body)
	}

	wantProblem(t, "other units", ask(s, "POST", "/v1/check", `{"policy":"sms","key":{"phone":"+1"},"n":3,"id":"order-7"}`), 400, "bad operation id", "an id of its own")
	wantProblem(t, "a peek", ask(s, "POST", "/v1/peek", key+`,"id":"order-7"}`), 400, `unknown member`, "takes policy, key, n")
	wantProblem(t, "no id", ask(s, "POST", "/v1/check", key+`,"id":""}`), 400, "1 to 128 bytes")
	wantProblem(t, "too long", ask(s, "POST", "/v1/check", key+`,"id":"`+strings.Repeat("x", weir.MaxIDBytes+1)+`"}`), 400, "1 to 128 bytes")
	wantProblem(t, "a number", ask(s, "POST", "/v1/check", key+`,"id":7}`), 400, "must be a string")
}
