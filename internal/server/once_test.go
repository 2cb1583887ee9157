package server

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// TestRepeatedIDsAreChargedOnce: a check or a record with an id can be sent again, and is
// charged once.
func TestRepeatedIDsAreChargedOnce(t *testing.T) {
	s, _ := newServer(t, nil)
	const key = `{"policy":"sms","key":{"phone":"+1"},"n":2`
	first := decide(t, s, "/v1/check", key+`,"id":"order-7"}`)
	again := decide(t, s, "/v1/check", key+`,"id":"order-7"}`)
	if first.Repeated || !again.Repeated || again.At != first.At || again.Granted != 2 || again.Remaining != 8 || again.RetryMS != first.RetryMS {
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
