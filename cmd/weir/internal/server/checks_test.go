package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
// the other, byte for byte, for every kind of policy, with ids and with bad input.
func TestChecksAgreeWithSingleChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		batched, single := pageServer(t, batchPolicies), pageServer(t, batchPolicies)
		r := rand.New(rand.NewPCG(1, 2))
		names := []string{"plain", "two", "shadow", "blocks", "warns", "reported", "plans", "none", ""}
		problems, denied, repeated := 0, 0, 0
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
				check := fmt.Sprintf(`{"policy":%q,"key":{%s},"n":%d%s}`, name, key, r.IntN(4), id)
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
				if string(got[i]) != want {
					t.Fatalf("check %d, %s, of %s\n got %s\nwant %s", i, check, checks, got[i], want)
				}
			}
		}
		if problems == 0 || denied == 0 || repeated == 0 {
			t.Errorf("%d problems, %d denied, %d repeated: want some of each", problems, denied, repeated)
		}
		count := func(s *Server) string {
			text := ask(s, "GET", "/metrics", "").body
			var lines []string
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "weir_decisions_total") || strings.HasPrefix(line, "weir_denials_total") ||
					strings.HasPrefix(line, "weir_warnings_total") || strings.HasPrefix(line, `weir_bad_requests_total{protocol="http"}`) {
					lines = append(lines, line)
				}
			}
			return strings.Join(lines, "")
		}
		if a, b := count(batched), count(single); a != b {
			t.Errorf("metrics of batches\n%s\nof single checks\n%s", a, b)
		}
	})
}

// TestBadBatchesChargeNothing: a body that is no batch is rejected as a whole, with the index
// of the check that is wrong.
func TestBadBatchesChargeNothing(t *testing.T) {
	s := pageServer(t, batchPolicies)
	good := `{"policy":"plain","key":{"k":"a"}}`
	many := strings.Repeat(good+",", 128)
	bad := map[string]string{
		``:                            `the body is empty; send {"checks":[{"policy":"…","key":{…},"n":1}]}`,
		`{}`:                          `"checks" is missing or empty`,
		`{"checks":[]}`:               `"checks" is missing or empty`,
		`{"checks":` + good + `}`:     `"checks" must be an array, […], not an object`,
		`{"checks":[` + good + `,3]}`: `checks[1]: byte 47: a check must be an object, {…}, not a number`,
		`{"checks":[` + good + `,]}`:  `checks[1]: byte 46: a check must be an object, {…}: invalid character ','`,
		`{"checks":[` + good + `}`:    `byte 46: a check must be an object, {…}: invalid character '}' after array element (expecting ',' or ']')`,
		`{"checks":[` + good + `]`:    `the text ends here`,
		`{"checks":[` + good + `,{"policy":"plain","ttl_ms":3}]}`:                                                `checks[1]: byte 65: unknown member ttl_ms; this call takes policy, key, n, id`,
		`{"checks":[` + good + `,{"checks":[]}]}`:                                                                `checks[1]: byte 48: unknown member checks`,
		`{"checks":[` + good + `],"checks":[` + good + `]}`:                                                      `"checks" is given twice`,
		`{"checks":[` + good + `],"together":1}`:                                                                 `"together" must be true or false, not a number`,
		`{"together":true,"checks":[` + good + `,{"policy":"plan","key":{"k":"a"}}]}`:                            `checks[1]: no policy "plan"`,
		`{"together":true,"checks":[` + good + `,{"policy":"held","key":{"k":"a"}}]}`:                            `checks[1]: weir: bad request: policy "held" has limit "limit" of kind Concurrency`,
		`{"together":true,"checks":[` + good + `,{"policy":"plain","key":{"k":"b"},"id":"x"}]}`:                  `checks[1]: weir: bad request: calls that are decided together have no idempotency key`,
		`{"together":true,"checks":[{"policy":"shadow","key":{"k":"a"}},{"policy":"reported","key":{"k":"b"}}]}`: `checks[1]: weir: bad request: policy "reported" counts reported units`,
		`{"checks":[` + good + `],"policy":"plain"}`:                                                             `unknown member policy; this call takes checks and together`,
		`{"checks":[` + many + good + `]}`:                                                                       `more than 128 checks; send them in several batches`,
		`{"checks":[` + good + strings.Repeat(" ", 64<<10) + `]}`:                                                `the body is longer than 64 KiB`,
		`{"checks":[` + good + `,{"key":{"k":"a"},"n":-1}]}`:                                                     `checks[1]: byte 68: "n" must be a whole number`,
		`{"checks":[` + good + `,{"granted_at_us":1}]}`:                                                          `checks[1]: byte 48: unknown member granted_at_us; this call takes policy, key, n, id`,
	}
	for body, want := range bad {
		r := ask(s, "POST", "/v1/checks", body)
		var problem struct{ Detail string }
		if json.Unmarshal([]byte(r.body), &problem); r.status != 400 || !strings.Contains(problem.Detail, want) {
			t.Errorf("%.80s: %d %s, want %s", body, r.status, problem.Detail, want)
		}
	}
	r := ask(s, "POST", "/v1/checks", `{"checks":[`+good+`]}`, func(r *http.Request) { r.Header.Set("Idempotency-Key", "x") })
	if r.status != 400 || !strings.Contains(r.body, "cannot name several operations") {
		t.Errorf("with Idempotency-Key: %d %s", r.status, r.body)
	}
	if line := fmt.Sprintf(`weir_bad_requests_total{protocol="http"} %d`, len(bad)+1); !strings.Contains(ask(s, "GET", "/metrics", "").body, line+"\n") {
		t.Errorf("the metrics have no line %s", line)
	}
	full := checksOf(t, ask(s, "POST", "/v1/checks", `{"checks":[`+strings.TrimSuffix(many, ",")+`]}`))
	allowed := 0
	for _, c := range full {
		if strings.HasPrefix(string(c), `{"allowed":true`) {
			allowed++
		}
	}
	if len(full) != 128 || allowed != 3 {
		t.Errorf("%d of %d checks allowed by 3 per minute; bad bodies must not charge", allowed, len(full))
	}
}

// TestChecksTogetherReadBlocks: a block denies all checks, also beside checks of 0 units, and a
// denied check begins one.
func TestChecksTogetherReadBlocks(t *testing.T) {
	s := pageServer(t, batchPolicies)
	together := func(n int) string {
		return ask(s, "POST", "/v1/checks", fmt.Sprintf(`{"together":true,"checks":[{"policy":"plain","key":{"k":"a"}},{"policy":"blocks","key":{"k":"a"},"n":%d}]}`, n)).body
	}
	if body := together(0); strings.Count(body, `"allowed":true`) != 2 || !strings.Contains(body, `"granted":0`) {
		t.Errorf("a peek beside an attempt: %s", body)
	}
	if body := together(3); strings.Count(body, `"allowed":false`) != 2 || strings.Count(body, `"blocked_until"`) != 1 {
		t.Errorf("the denial that begins a block: %s", body)
	}
	if body := together(0); strings.Count(body, `"allowed":false`) != 2 || strings.Count(body, `"blocked_until"`) != 1 {
		t.Errorf("during the block: %s", body)
	}
}

// TestChecksTogether: checks are charged all or none. One that only others denied says so,
// and counts as a peek of its policy.
func TestChecksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pageServer(t, batchPolicies)
		transfer := func(from, to string, n int) (answers []struct {
			Allowed   bool
			Remaining int64
			Limit     string
			Why       string
		}) {
			t.Helper()
			r := ask(s, "POST", "/v1/checks", fmt.Sprintf(`{"together":true,"checks":[{"policy":"plain","key":{"k":%q},"n":%d},{"policy":"shadow","key":{"k":%q},"n":%d},{"policy":"two","key":{"k":%q},"n":%d}]}`, from, n, from, n, to, n))
			for _, one := range checksOf(t, r) {
				var a struct {
					Allowed   bool
					Remaining int64
					Limit     string
					Why       string
				}
				if err := json.Unmarshal(one, &a); err != nil {
					t.Fatal(err)
				}
				answers = append(answers, a)
			}
			return answers
		}
		if a := transfer("a", "b", 3); !a[0].Allowed || !a[1].Allowed || !a[2].Allowed || a[0].Remaining != 0 || a[2].Remaining != 0 || !strings.Contains(a[1].Why, "shadow, not enforced: would be denied") {
			t.Errorf("%+v", a)
		}
		a := transfer("c", "b", 1)
		if a[0].Allowed || a[1].Allowed || a[2].Allowed || a[0].Remaining != 3 || a[0].Limit != "" || a[2].Limit != "k" ||
			a[0].Why != "denied because of the checks decided together with it; all of them fit in 1m" {
			t.Errorf("%+v", a)
		}
		text := ask(s, "GET", "/metrics", "").body
		for _, want := range []string{"peeked\",policy=\"plain", "denied\",policy=\"two", "peeked\",policy=\"shadow"} {
			if line := `weir_decisions_total{outcome="` + want + `",protocol="http"} 1`; !strings.Contains(text, line) {
				t.Errorf("no %s", line)
			}
		}
		if line := `weir_decision_duration_seconds_count{protocol="http"} 2`; !strings.Contains(text, line+"\n") {
			t.Errorf("no %s: a batch is timed once", line)
		}
	})
}
