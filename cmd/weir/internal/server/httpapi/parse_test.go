package httpapi

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/httpapitest"
	"github.com/weirlimit/weir/internal/testkit/jsontest"
)

// referenceCall reads a body by encoding/json. It is the reference for scratch.read.
func referenceCall(b []byte, takes member) (c call, err error) {
	defer jsontest.Recover(&err)
	c = call{Request: enforce.Request{N: 1}, granted: -1}
	switch takes {
	case settleMembers:
		c.actual = engine.AllUnits
	case extendMembers:
		c.N, c.Before = 0, engine.Unknown
	}
	seen := map[string]bool{}
	for _, m := range jsontest.Members(jsontest.Must(b)) {
		seen[m.Name] = true
		switch {
		case m.Name == "reservation" && takes&reservationMember != 0:
			c.reservation = jsontest.Text(m.Value)
		case m.Name == "actual" && takes == settleMembers:
			c.actual = referenceUnits(m.Value)
		case m.Name == "n" && takes == extendMembers:
			c.N = referenceUnits(m.Value)
		case m.Name == "reserved" && takes == extendMembers:
			c.Before = referenceUnits(m.Value)
		case takes&policyMember == 0:
			jsontest.Require(false, "unknown member")
		case m.Name == "ttl_ms" && takes == reserveMembers:
			c.ttl = referenceUnits(m.Value)
			jsontest.Require(c.ttl > 0, "ttl_ms")
		case m.Name == "max_wait_ms" && takes&waitMember != 0:
			c.waits, c.wait = true, jsontest.Number(m.Value, weir.MaxWindow.Milliseconds())
		case m.Name == "limit" && takes == countMembers:
			c.Limit = jsontest.Text(m.Value)
			jsontest.Require(c.Limit != "", "limit")
		case m.Name == "last_ms" && takes == countMembers:
			c.last = jsontest.Number(m.Value, math.MaxInt64)
		case m.Name == "for_ms" && takes == blockMembers:
			c.For = time.Duration(jsontest.Number(m.Value, weir.MaxWindow.Milliseconds())) * time.Millisecond
		case m.Name == "limit_names" && takes == blockMembers:
			for _, name := range jsontest.Elements(m.Value) {
				c.Limits = append(c.Limits, jsontest.Text(name))
			}
			jsontest.Require(len(c.Limits) <= engine.MaxLimits, "limit_names")
		case m.Name == "limits":
			c.lines = []string{}
			for _, line := range jsontest.Elements(m.Value) {
				c.lines = append(c.lines, jsontest.Text(line))
			}
		case m.Name == "policy":
			c.policy = jsontest.Text(m.Value)
		case m.Name == "key":
			for _, d := range jsontest.Members(m.Value) {
				var problem string
				c.key, problem = c.key.Add(d.Name, jsontest.Text(d.Value))
				jsontest.Require(problem == "", "dimensions")
			}
		case m.Name == "n" && takes&unitsMember != 0:
			c.N = referenceUnits(m.Value)
		case m.Name == "granted_at_us" && takes == refundMembers:
			c.granted = jsontest.Number(m.Value, weir.MaxInstant)
		case m.Name == "at" && takes == refundMembers:
			at, err := time.Parse(time.RFC3339Nano, jsontest.Text(m.Value))
			c.granted = at.UnixMicro()
			jsontest.Require(err == nil && at.Nanosecond()%1000 == 0 && 0 <= c.granted && c.granted <= weir.MaxInstant, "at")
		case m.Name == "id" && takes&idMember != 0:
			c.ID = jsontest.Text(m.Value)
			jsontest.Require(len(c.ID) >= 1 && len(c.ID) <= weir.MaxIDBytes, "id")
		default:
			jsontest.Require(false, "unknown member")
		}
	}
	jsontest.Require(seen["policy"] || seen["limits"] || takes&policyMember == 0, "no policy")
	jsontest.Require(seen["last_ms"] || takes != countMembers, "no span")
	jsontest.Require(seen["for_ms"] || takes != blockMembers, "no time")
	jsontest.Require(!seen["reserved"] || c.N > 0, "units before of no further ones")
	jsontest.Require(seen["reservation"] || takes&reservationMember == 0, "no reservation")
	jsontest.Require(takes != refundMembers || seen["at"] != seen["granted_at_us"], "no instant, or two")
	return c, nil
}

func referenceUnits(v any) int64 { return jsontest.Number(v, weir.MaxUnits) }

// compareCalls holds a body to the reference and reports whether it is good.
func compareCalls(t *testing.T, b []byte, takes member) bool {
	t.Helper()
	s := &scratch{body: b}
	err := s.read(takes)
	got := s.call
	want, wantErr := referenceCall(b, takes)
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("a body of %v: %q\ngot  %+v, %v\nwant %+v, %v", takes, b, got, err, want, wantErr)
	}
	return err == nil
}

// wholeBodies are good bodies of either kind of call, and words what mutations
// write into them.
var wholeBodies = []struct {
	takes  member
	bodies []string
}{
	{recordMembers, []string{
		`{"policy":"search","key":{"ip":"192.0.2.1"}}`,
		`{"policy":"slack","key":{"category":"error"},"n":2251799813685247}`,
		" {\t\"key\" : { \"a\" : \"\\u00e9\\n\" , \"b\" : \"\u00ff\" } ,\r\n\"n\":0,\"policy\":\"\"} ",
		`{"policy":"search","key":{"ip":"192.0.2.1"},"id":"op \u0000 1"}`,
		`{"id":"` + strings.Repeat("x", weir.MaxIDBytes) + `","policy":"batch"}`,
		`{"policy":"wide","key":{"a":"1","b":"2","c":"3","d":"4","e":"5","f":"\ud83d\ude00"}}`,
	}},
	{checkMembers, []string{
		`{"policy":"search","key":{"ip":"192.0.2.1"},"max_wait_ms":30000}`,
		`{"max_wait_ms":0,"policy":"a","id":"1"}`,
		`{"policy":"search","key":{"ip":"1"}, "max_wait_ms": 34560000000}`,
	}},
	{peekMembers, []string{`{"policy":"search","key":{"ip":"192.0.2.1"}}`, `{"limits":["10 per minute" ,"\u0031 per day"],"n":2}`, `{"policy":"a","limits":[]}`}},
	{countMembers, []string{`{"policy":"search","key":{"ip":"192.0.2.1"},"last_ms":20000}`, `{"last_ms":0,"limit":"ip","policy":"search"}`}},
	{reserveMembers, []string{`{"policy":"search","key":{"ip":"192.0.2.1"}}`, `{"ttl_ms":60000,"policy":"search","key":{"ip":"1"},"id":"a","n":2}`, `{"max_wait_ms":1,"policy":"a","ttl_ms":1}`}},
	{settleMembers, []string{`{"reservation":"AQID","actual":3}`, `{"actual":0 , "reservation":"\u0041"}`, `{"reservation":"AQID"}`}},
	{releaseMembers, []string{`{"reservation":"AQID"}`}},
	{extendMembers, []string{`{"reservation":"AQID"}`, `{"reservation":"AQID","n":2}`, `{"n":2,"reserved":600,"reservation":"AQID"}`, `{"n":0,"reservation":"A"}`}},
	{blockMembers, []string{`{"policy":"search","key":{"ip":"192.0.2.1"},"for_ms":60000}`, `{"for_ms":0,"policy":"batch","limit_names":["a" , "b"]}`, `{"for_ms":0,"policy":"batch","limit_names":[],"limits":["1 per day"]}`}},
	{refundMembers, []string{
		`{"policy":"sms","key":{"phone":"+1"},"n":2,"granted_at_us":1790000000000000}`,
		`{"policy":"sms","key":{"phone":"+1"},"at":"2026-11-20T13:07:31.000005Z"}`,
		`{"at":"2026-11-20T14:07:31+01:00","policy":"batch"}`,
	}},
}

var words = strings.Fields(`"n":1 "at" "at":"2026-11-20T13:07:31Z" "granted_at_us":7 "id":"a" "id":"" "ttl_ms":1 "ttl_ms":0 "last_ms":1 "limit":"" last_ms limit "actual":1 "reserved":1 "n":0 "for_ms":1 "limits":[] limits "max_wait_ms":1 max_wait_ms "limit_names":[] limit_names for_ms reserved "reservation":"" reservation actual ttl_ms id granted_at_us policy key n 1 .000001 .0000001 1969 Z`)

func TestCallsAgreeWithEncodingJSON(t *testing.T) {
	for _, c := range wholeBodies {
		for _, bad := range httpapitest.Bodies {
			compareCalls(t, []byte(bad.Body), c.takes)
		}
		for _, body := range c.bodies {
			if !compareCalls(t, []byte(body), c.takes) {
				t.Errorf("%s: rejected, want it read", body)
			}
		}
		const tries = 10_000
		good := 0
		for seed := range uint64(tries) {
			r := rand.New(rand.NewPCG(seed, uint64(c.takes)))
			if compareCalls(t, jsontest.Mutate(r, c.bodies[r.IntN(len(c.bodies))], words...), c.takes) {
				good++
			}
		}
		if good < tries/50 || good > tries/2 {
			t.Errorf("%d of %d mutated bodies of %v are good; the mutations no longer lie about the border", good, tries, c.takes)
		}
	}
}

// FuzzCall looks for a body that scratch.read and encoding/json read differently.
func FuzzCall(f *testing.F) {
	for _, c := range wholeBodies {
		for _, body := range c.bodies {
			f.Add([]byte(body))
		}
	}
	for _, body := range []string{
		// Numbers, arrays and escapes of other grammars than ours.
		`{"n":0E+0}`,
		`{"n":0.0E0}`,
		`{"n":0E+`,
		`{"n":0e0A`,
		`{"n":1e700}`,
		`{"n":-00}`,
		`{"n":0.00000000000000000}`,
		"{\"n\":10000000000000000\x05",
		`{"n":1000000000000000000,"n":-100000000000000}`,
		`{"n":n`,
		`{"policy":[[[[[]]]]`,
		`{"key":[0,0,0,0,`,
		`{"key":{"":{"":{"":{"":{"":{"":{"":{"":0A`,
		`{"policy":"\ua000\`,
		`{"policy":"\u0000\ud80a\udc00\b\u00a0","key":{"":"0000"0`,
		"{\"policy\":\"\U0010fe80\x17",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, c := range wholeBodies {
			compareCalls(t, b, c.takes)
		}
	})
}

// FuzzQuery compares each accepted query with the reading of net/url.
func FuzzQuery(f *testing.F) {
	for _, c := range httpapitest.Queries {
		f.Add(c.Query)
	}
	for _, c := range httpapitest.Gates {
		f.Add(c.Query)
	}
	f.Add("ip=192.0.2.1&n=2&deny=403")
	f.Add("&&key.ip=%00%ff+x&")
	f.Add("ip=a;b=c")
	f.Fuzz(func(t *testing.T, raw string) {
		got := query{reserved: gateSettings}
		if strings.Contains(raw, ";") || got.parse(raw) != nil {
			return // net/url rejects a semicolon, which may be a separator; here it is a character
		}
		want, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatalf("%q: accepted, but net/url returns %v", raw, err)
		}
		if len(want) != len(got.key)+len(got.settings) {
			t.Errorf("%q: read as %+v, want %v", raw, got, want)
		}
		for _, p := range got.key {
			if want.Get(p.Name) != p.Value && want.Get(keyPrefix+p.Name) != p.Value {
				t.Errorf("%q: %s read as %q, want %v", raw, p.Name, p.Value, want)
			}
		}
	})
}

func TestIdempotencyKeyUnescapesQuotes(t *testing.T) {
	if id, err := idempotencyKey(http.Header{idempotencyField: {`"a \"b\" \\"`}}, ""); id != `a "b" \` || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}
