package envoy

import (
	"context"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirlimit/weir"
)

func TestJSONEqualsGRPC(t *testing.T) {
	p := connect(t, newClock(weir.NewMemory()), parse(t, "domain: dummy\ndescriptors: [{key: one_per_day, rate_limit: {unit: day, requests_per_unit: 1}}]"))
	body := `{"domain": "dummy", "descriptors": [{"entries": [{"key": "one_per_day", "value": "something"}]}]}`
	for i, want := range []struct {
		code   int
		answer string
	}{{200, "OK | OK 0/1 24h0m0s"}, {429, "OVER_LIMIT | OVER_LIMIT 0/1 24h0m0s"}} {
		code, answer, err := p.service.JSON(context.Background(), []byte(body))
		if err != nil || code != want.code {
			t.Fatalf("request %d: %d, %v; want %d", i+1, code, err, want.code)
		}
		var a pb.RateLimitResponse
		if err := protojson.Unmarshal(answer, &a); err != nil || brief(&a) != want.answer {
			t.Errorf("request %d: %s, %v; want %s", i+1, answer, err, want.answer)
		}
	}
	// Both spellings of names, and every field.
	for _, body := range []string{
		`{"domain":"dummy","hits_addend":2,"descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"requests_per_unit":3,"unit":"HOUR","unit_multiplier":2},"hits_addend":"1","is_negative_hits":true}]}`,
		`{"domain":"dummy","hitsAddend":2,"descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"requestsPerUnit":3,"unit":"HOUR","unitMultiplier":2},"hitsAddend":1,"isNegativeHits":true}]}`,
	} {
		if code, answer, err := p.service.JSON(context.Background(), []byte(body)); code != 200 || err != nil {
			t.Errorf("%s: %d, %s, %v", body, code, answer, err)
		}
	}
}

func TestBadJSONGets400(t *testing.T) {
	e := &counting{Engine: weir.NewMemory()}
	p := connect(t, e, parse(t, hitsConfig))
	for _, c := range []struct{ body, word string }{
		{"", "RateLimitRequest"},
		{"{", "RateLimitRequest"},
		{"[]", "RateLimitRequest"},
		{"null", "RateLimitRequest"},
		{"{}", "domain must not be empty"},
		{`{"domain":"hits"}`, "descriptor list must not be empty"},
		{`{"domain":"hits","descriptors":[{"entries":[{"key":"a"}]}],"hitsAddend":-1}`, "hitsAddend"},
		{`{"domain":"hits","descriptors":[{"entries":[{"key":"a"}],"hitsAddend":-1}]}`, "RateLimitRequest"},
		{`{"domain":"hits","descriptors":[{"entries":[{"key":"a"}]}],"hitsAddend":4294967296}`, "hitsAddend"},
		{`{"domain":"hits","descriptors":[{"entries":[{"key":"a"}],"hitsAddend":2251799813685248}]}`, "descriptors[0].hits_addend"},
		{`{"domain":"hits","descriptors":[{"entries":[{"key":"a"}]}],"cost":1}`, "cost"},
		{`{"domain":"hits","descriptors":[{"entries":[{"key":"a"}],"limit":{"requestsPerUnit":1,"unit":"FORTNIGHT"}}]}`, "unit"},
		{`{"domain":"hits","descriptors":[null]}`, ""},
		{`{"domain":"hits","descriptors":[{"entries":[null]}]}`, ""},
		{"{\"domain\":\"\xff\"}", "UTF-8"},
	} {
		code, answer, err := p.service.JSON(context.Background(), []byte(c.body))
		if code != 400 || err == nil || answer != nil || !strings.Contains(err.Error(), c.word) || strings.Contains(err.Error(), "\u00a0") {
			t.Errorf("%q: %d, %s, %v; want 400 with %q", c.body, code, answer, err, c.word)
		}
	}
	if e.calls != 0 {
		t.Errorf("bad input reached the engine %d times", e.calls)
	}
}

// No body makes the service panic.
func FuzzJSON(f *testing.F) {
	f.Add(`{"domain":"hits","descriptors":[{"entries":[{"key":"a"}],"limit":{"requestsPerUnit":1,"unit":"HOUR","unitMultiplier":2},"hitsAddend":3},{"entries":[{"key":"b"}],"isNegativeHits":true}]}`)
	f.Add(`{"domain":"slack","descriptors":[{"entries":[{"key":"category","value":"x"}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		e := weir.NewMemory()
		s := New(Options{Engine: e, Metadata: true, Response: &DefaultHeaders})
		if err := s.Load(parse(t, hitsConfig), policies(t, e)); err != nil {
			t.Fatal(err)
		}
		if code, answer, err := s.JSON(context.Background(), []byte(body)); (err == nil) != (code == 200 || code == 429) || (err == nil) != (answer != nil) {
			t.Errorf("%q: %d, %s, %v", body, code, answer, err)
		}
	})
}
