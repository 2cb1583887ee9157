package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
)

// named sends a header field as often as there are values.
func named(field string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(field)] = values }
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

// TestGateReadsIDs: a gate reads an id from the header field that the operator has configured.
func TestGateReadsIDs(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) { c.GateID = "x-request-id" })
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
}

// checksOf returns the answers of a batch.
func checksOf(t *testing.T, r reply) (all []json.RawMessage) {
	t.Helper()
	var answer struct{ Checks []json.RawMessage }
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status != 200 {
		t.Fatalf("status %d, %v: %s", r.status, err, r.body)
	}
	return answer.Checks
}

const batchPolicies = `version: 1
policies:
  plain: {limit: "3 per minute per k"}
  two: {limits: {k: 3 per minute per k, all: 9 per hour}, batch: partial}
  shadow: {limit: "2 per minute per k", shadow: true}
  blocks: {limit: "2 per minute per k, then block 5m"}
  warns: {limit: "4 per minute per k", warn: 50%}
  reported: {limit: "2 per minute per k", count: reported}
  held: {limit: "2 at once per k, for at most 1m"}
  plans:
    limit: 1 per minute per k
    plan-by: plan
    plans: {gold: 3 per minute}
    overrides:
      - {for: {k: b}, limit: 2 per minute, until: forever, why: a customer}
`

// TestChecksAgreeWithSingleChecks: the answers to a batch are those to its checks one after
// the other, byte for byte, for every kind of policy, with ids, waits and bad input.
func TestChecksAgreeWithSingleChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batched, single := pageServer(t, batchPolicies), pageServer(t, batchPolicies)
		r := rand.New(rand.NewPCG(1, 2))
		names := []string{"plain", "two", "shadow", "blocks", "warns", "reported", "plans", "none", ""}
		problems, denied, repeated := 0, 0, 0
		ahead := 0 // answers with units of a later start
		for range 200 {
			time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
			var checks []string
			for range 1 + r.IntN(6) {
				name, key := names[r.IntN(len(names))], fmt.Sprintf(`"k":"%c"`, 'a'+r.IntN(2))
				if name == "plans" && r.IntN(2) == 0 {
					key += `,"plan":"gold"`
				}
				if r.IntN(12) == 0 {
					key = `"other":"x"`
				}
				id := ""
				if r.IntN(3) == 0 {
					id = fmt.Sprintf(`,"id":"op-%d"`, r.IntN(3))
				}
				wait := ""
				if name == "plain" && r.IntN(2) == 0 {
					wait = `,"max_wait_ms":30000`
				}
				check := fmt.Sprintf(`{"policy":%q,"key":{%s},"n":%d%s%s}`, name, key, r.IntN(4), id, wait)
				if name == "" && r.IntN(2) == 0 {
					check = strings.Replace(check, `"policy":"",`, "", 1)
				}
				checks = append(checks, check)
			}
			got := checksOf(t, ask(batched, "POST", "/v1/checks", `{"checks":[`+strings.Join(checks, ",")+`]}`))
			if len(got) != len(checks) {
				t.Fatalf("%d answers to %d checks", len(got), len(checks))
			}
			for i, check := range checks {
				one := ask(single, "POST", "/v1/check", check)
				want := strings.TrimSuffix(one.body, "\n")
				if one.status != 200 {
					problems++
					want = fmt.Sprintf(`{"index":%d,%s`, i, want[1:])
				} else if strings.HasPrefix(want, `{"allowed":false`) {
					denied++
				}
				if strings.Contains(want, `"replayed":true`) {
					repeated++
				}
				if strings.Contains(want, `"ahead":`) {
					ahead++
				}
				if string(got[i]) != want {
					t.Fatalf("check %d, %s, of %s\n got %s\nwant %s", i, check, checks, got[i], want)
				}
			}
		}
		if problems == 0 || denied == 0 || repeated == 0 || ahead == 0 {
			t.Errorf("%d problems, %d denied, %d repeated, %d ahead: want some of each", problems, denied, repeated, ahead)
		}
		counts := regexp.MustCompile(`(?m)^weir_(decisions_total|denials_total|warnings_total|bad_requests_total\{protocol="http"\}).*\n`)
		count := func(s *Server) string {
			return strings.Join(counts.FindAllString(ask(s, "GET", "/metrics", "").body, -1), "")
		}
		if a, b := count(batched), count(single); a != b {
			t.Errorf("metrics of batches\n%s\nof single checks\n%s", a, b)
		}
	})
}

// TestLargeBatches: 128 checks are decided. More, or a longer body, are rejected and charge nothing.
func TestLargeBatches(t *testing.T) {
	s := pageServer(t, batchPolicies)
	good := `{"policy":"plain","key":{"k":"a"}}`
	many := strings.Repeat(good+",", 128)
	for body, want := range map[string]string{
		`{"checks":[` + many + good + `]}`:                        `more than 128 checks; send them in several batches`,
		`{"checks":[` + good + strings.Repeat(" ", 64<<10) + `]}`: `the body is longer than 64 KiB`,
	} {
		wantProblem(t, body[:80], ask(s, "POST", "/v1/checks", body), 400, want)
	}
	full := checksOf(t, ask(s, "POST", "/v1/checks", `{"checks":[`+strings.TrimSuffix(many, ",")+`]}`))
	allowed := 0
	for _, c := range full {
		if strings.HasPrefix(string(c), `{"allowed":true`) {
			allowed++
		}
	}
	if len(full) != 128 || allowed != 3 {
		t.Errorf("%d of %d checks allowed by 3 per minute; rejected bodies must not charge", allowed, len(full))
	}
}
