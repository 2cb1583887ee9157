package server

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

func TestCheckReturnsTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		body := `{"policy":"push","key":{"teacher":"42"}}`
		at := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		got := decide(t, s, "/v1/check", body)
		want := decision{Allowed: true, Policy: "push", Granted: 1, Remaining: 9, RetryMS: 3000, RetryUS: 3_000_000, ResetMS: 60_000, At: at,
			Why: "1 of 10 used in the last minute for teacher=42, 9 left; the same again fits in 3s",
			Limits: []state{{Name: "limit", Key: map[string]string{"teacher": "42"}, Max: 10, Used: 1, Remaining: 9,
				WindowMS: 60_000, Kind: "rolling", MinIntervalMS: 3000, RetryMS: 3000, NextMS: 60_000, ResetMS: 60_000}}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("first:\ngot  %+v\nwant %+v", got, want)
		}

		time.Sleep(1_200_001 * time.Microsecond)
		got = decide(t, s, "/v1/check", body)
		want = decision{Policy: "push", Remaining: 9, RetryMS: 1800, RetryUS: 1_799_999, ResetMS: 58_800, Limit: "limit", At: got.At,
			Why: "the last grant was 1.2s ago and grants must be 3s apart for teacher=42; open again in 1.8s",
			Limits: []state{{Name: "limit", Key: map[string]string{"teacher": "42"}, Max: 10, Used: 1, Remaining: 9,
				WindowMS: 60_000, Kind: "rolling", MinIntervalMS: 3000, RetryMS: 1800, NextMS: 58_800, ResetMS: 58_800}}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after 1.200001s:\ngot  %+v\nwant %+v", got, want)
		}

		time.Sleep(1_799_998 * time.Microsecond)
		if got := decide(t, s, "/v1/check", body); got.Allowed || got.RetryUS != 1 || got.RetryMS != 1 {
			t.Errorf("one microsecond early: %+v, want a denial with 1us to wait, shown as 1ms", got)
		}
		time.Sleep(time.Microsecond)
		if got := decide(t, s, "/v1/check", body); !got.Allowed {
			t.Errorf("at the announced instant: %+v, want allowed", got)
		}
	})
}

func TestCheckShowsTheBindingLimit(t *testing.T) {
	s, _ := newServer(t, nil)
	body := `{"policy":"slack","key":{"category":"errors"},"n":2}`
	if got := decide(t, s, "/v1/check", body); !got.Allowed || got.Remaining != 0 || len(got.Limits) != 2 {
		t.Errorf("2 of 2: %+v, want allowed with two limits", got)
	}
	got := decide(t, s, "/v1/check", `{"policy":"slack","key":{"category":"errors"}}`)
	if got.Allowed || got.Limit != "category" || got.Limits[0].Used != 2 || len(got.Limits[0].Key) != 0 {
		t.Errorf("a third: %+v, want denied by category, charged to no limit", got)
	}
	got = decide(t, s, "/v1/check", `{"n":3,"key":{"category":"errors"},"policy":"slack"}`)
	if got.RetryMS != -1 || got.RetryUS != -1 || !strings.Contains(got.Why, "never allows more than 2") {
		t.Errorf("3 of at most 2: %+v, want never", got)
	}
	if got := decide(t, s, "/v1/check", `{"policy":"slack","key":{"category":"info"}}`); !got.Allowed {
		t.Errorf("another category: %+v, want allowed", got)
	}
}

func TestCheckGrantsAPart(t *testing.T) {
	s, _ := newServer(t, nil)
	got := decide(t, s, "/v1/check", `{"policy":"batch","n":6}`)
	if !got.Allowed || got.Granted != 4 || got.RetryMS != -1 || got.Limit != "limit" {
		t.Errorf("6 of 4 in mode Partial: %+v, want 4 granted, and never 6", got)
	}
}

func TestPeeksChargeNothing(t *testing.T) {
	s, _ := newServer(t, nil)
	for range 5 {
		got := decide(t, s, "/v1/peek", `{"policy":"search","key":{"ip":"192.0.2.1"},"n":2}`)
		if !got.Allowed || got.Granted != 2 || got.Remaining != 2 {
			t.Fatalf("peek of 2: %+v, want allowed, nothing used", got)
		}
		got = decide(t, s, "/v1/check", `{"policy":"search","key":{"ip":"192.0.2.1"},"n":0}`)
		if !got.Allowed || got.Granted != 0 || got.Remaining != 2 {
			t.Fatalf("check of 0: %+v, want a peek", got)
		}
	}
}

func TestRecordRefundAndResetChangeTheHistory(t *testing.T) {
	s, _ := newServer(t, nil)
	key := `{"phone":"+1 555"}`
	body := func(rest string) string { return `{"policy":"sms","key":` + key + rest + `}` }
	granted := decide(t, s, "/v1/check", body(`,"n":4`))
	over := decide(t, s, "/v1/record", body(`,"n":8`))
	if !over.Allowed || over.Remaining != -2 || !strings.HasPrefix(over.Why, "recorded 8 messages: 12 of 10 messages used") {
		t.Errorf("recorded 8 on 4 of 10: %+v, want 2 below zero", over)
	}
	refund := func(rest, want string) {
		t.Helper()
		if r := ask(s, "POST", "/v1/refund", body(rest)); r.status != 200 || r.body != want+"\n" {
			t.Errorf("refund %s: status %d, %s; want %s", rest, r.status, r.body, want)
		}
	}
	if over.At == granted.At { // the clock did not tick: both are one entry
		refund(`,"n":9,"at":"`+granted.At+`"`, `{"policy":"sms","refunded":9}`)
	} else {
		refund(`,"n":1,"at":"`+granted.At+`"`, `{"policy":"sms","refunded":1}`)
		refund(`,"n":9,"granted_at_us":`+micros(t, granted.At), `{"policy":"sms","refunded":3}`)
	}
	refund(`,"at":"2001-01-01T00:00:00Z"`, `{"policy":"sms","refunded":0}`)

	if r := ask(s, "DELETE", "/v1/keys/sms?phone=%2B1+555", ""); r.status != 204 || r.body != "" {
		t.Errorf("reset: status %d, %s; want 204", r.status, r.body)
	}
	if got := decide(t, s, "/v1/peek", body("")); got.Remaining != 10 {
		t.Errorf("after the reset: %+v, want 10 left", got)
	}
}

func micros(t *testing.T, at string) string {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(when.UnixMicro())
}

// Equal bytes in different forms of JSON and queries are one key. Different bytes are
// different keys.
func TestKeysAreOpaque(t *testing.T) {
	s, _ := newServer(t, nil)
	for i, key := range []struct{ json, query string }{
		{`\u0000`, "%00"}, {`a\nb`, "a%0ab"}, {`{}`, "{}"}, {`a b`, "a+b"}, {`+1`, "%2B1"}, {``, ""},
		{"é", "%C3%A9"}, {`\u00e9x`, "%c3%a9x"}, {`\ud83d\ude00`, "%F0%9F%98%80"}, {`%25`, "%2525"},
	} {
		got := decide(t, s, "/v1/check", `{"policy":"search","key":{"ip":"`+key.json+`"}}`)
		if got.Remaining != 1 {
			t.Errorf("key %d (%s) shares its history with another: %+v", i, key.json, got)
		}
		if r := ask(s, "GET", "/gate/search?ip="+key.query, ""); r.status != 204 || !strings.HasPrefix(r.header["RateLimit"][0], `"search";r=0`) {
			t.Errorf("key %d: %s at the gate is another key than %q in JSON: %v", i, key.query, key.json, r)
		}
	}
	// JSON is UTF-8. At the gate other bytes are keys, too.
	wantProblem(t, "bytes", ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"`+"\xff"+`"}}`), 400, "body, byte 33: invalid UTF-8")
	for _, query := range []string{"%FF", "%FE"} {
		if r := ask(s, "GET", "/gate/search?ip="+query, ""); r.status != 204 || !strings.HasPrefix(r.header["RateLimit"][0], `"search";r=1`) {
			t.Errorf("%s at the gate: %v, want a key of its own", query, r)
		}
	}
}

// A full engine rejects new keys, and keeps deciding for the existing ones.
func TestFullStoreRejectsOnlyNewKeys(t *testing.T) {
	s, logged := newServer(t, weir.NewMemory(weir.MaxKeys(1)))
	decide(t, s, "/v1/check", `{"policy":"search","key":{"ip":"first"}}`)
	r := ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"second"}}`)
	wantProblem(t, "a new key in a full store", r, 503, "as many keys as it may")
	if got := decide(t, s, "/v1/check", `{"policy":"search","key":{"ip":"first"}}`); !got.Allowed {
		t.Errorf("a key that exists: %+v, want allowed", got)
	}
	if strings.Contains(logged.String(), "second") || !strings.Contains(logged.String(), "no decision could be made") {
		t.Errorf("the log should name the error and not the key: %s", logged)
	}
}

func TestBrowsersOfOtherSitesAreRejected(t *testing.T) {
	s, _ := newServer(t, nil)
	foreign := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	wantProblem(t, "reset", ask(s, "DELETE", "/v1/keys/search?ip=1", "", foreign), 403, "another site")
	wantProblem(t, "check", ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"1"}}`, foreign), 403, "another site")
	if got := decide(t, s, "/v1/peek", `{"policy":"search","key":{"ip":"1"}}`); got.Remaining != 2 {
		t.Errorf("a rejected call charged: %+v", got)
	}
	if r := ask(s, "GET", "/gate/search?ip=1", "", foreign); r.status != 204 {
		t.Errorf("a proxy passes the client's header on: status %d, want 204", r.status)
	}
}

// alive records whether the context at the engine was still alive.
type alive struct {
	engine.Engine
	err error
}

func (e *alive) Do(ctx context.Context, calls []engine.Call) {
	e.err = ctx.Err()
	e.Engine.Do(ctx, calls)
}

// A client that closes its connection at once is charged like any other.
func TestCancelledRequestIsCharged(t *testing.T) {
	e := &alive{Engine: weir.NewMemory()}
	s, _ := newServer(t, e)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := ask(s, "GET", "/gate/search?ip=1", "", func(r *http.Request) { *r = *r.WithContext(gone) })
	if r.status != 204 || e.err != nil {
		t.Errorf("status %d, the engine's context has the error %v; want 204 and a live context", r.status, e.err)
	}
}
