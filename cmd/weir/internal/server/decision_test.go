package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

func TestCheckReturnsTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from 2000-01-01
		s, _ := newServer(t, nil)
		play(t, s, `
			let body {"policy":"push","key":{"teacher":"42"}}
			let limit {"name":"limit","key":{"teacher":"42"},"max":10,"used":1,"remaining":9,"window_ms":60000,"min_interval_ms":3000,"kind":"rolling"
			POST /v1/check $body
			=> 200 {"allowed":true,"policy":"push","granted":1,"remaining":9,"retry_after_ms":3000,"retry_after_us":3000000,"reset_after_ms":60000,…
			…,"at":"2000-01-01T00:00:00.000000Z","limit":"","why":"1 of 10 used in the last minute for teacher=42, 9 left; the same again fits in 3s",…
			…,"limits":[$limit,"retry_after_ms":3000,"next_ms":60000,"reset_after_ms":60000}]}
			  Content-Type: application/json
			sleep 1200001us
			POST /v1/check $body
			=> 200 {"allowed":false,"policy":"push","granted":0,"remaining":9,"retry_after_ms":1800,"retry_after_us":1799999,"reset_after_ms":58800,…
			…,"at":"2000-01-01T00:00:01.200001Z","limit":"limit","why":"the last grant was 1.2s ago and grants must be 3s apart for teacher=42; open again in 1.8s",…
			…,"limits":[$limit,"retry_after_ms":1800,"next_ms":58800,"reset_after_ms":58800}]}
			sleep 1799998us
			POST /v1/check $body => 200 {"allowed":false,…"retry_after_ms":1,"retry_after_us":1,…
			sleep 1us
			POST /v1/check $body => 200 {"allowed":true,…
		`)
	})
}

func TestCheckShowsTheBindingLimit(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		let errors "policy":"slack","key":{"category":"errors"}
		POST /v1/check {$errors,"n":2} => 200 {"allowed":true,…"remaining":0,…"name":"channel",…"name":"category",…
		POST /v1/check {$errors} => 200 {"allowed":false,…"limit":"category",…"limits":[{"name":"channel","key":{},…"used":2,…
		POST /v1/check {"n":3,"key":{"category":"errors"},"policy":"slack"}
		=> 200 …"retry_after_ms":-1,"retry_after_us":-1,…never allows more than 2…
		POST /v1/check {"policy":"slack","key":{"category":"info"}} => 200 {"allowed":true,…
		# a part
		POST /v1/check {"policy":"batch","n":6} => 200 {"allowed":true,…"granted":4,…"retry_after_ms":-1,…"limit":"limit",…
		# peeks charge nothing
		let two "policy":"search","key":{"ip":"192.0.2.1"}
		`+strings.Repeat("POST /v1/peek {$two,\"n\":2} => 200 {\"allowed\":true,…\"granted\":2,\"remaining\":2,…\n"+
		"POST /v1/check {$two,\"n\":0} => 200 {\"allowed\":true,…\"granted\":0,\"remaining\":2,…\n", 3)+`
	`)
}

func TestRecordRefundAndResetChangeTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		play(t, s, fmt.Sprintf(`
			let sms "policy":"sms","key":{"phone":"+1 555"}
			POST /v1/check {$sms,"n":4} => 200 …"at":"$at",…
			sleep 1us
			POST /v1/record {$sms,"n":8} => 200 {"allowed":true,…"remaining":-2,…"why":"recorded 8 messages: 12 of 10 messages used…
			POST /v1/refund {$sms,"n":1,"at":"$at"} => 200 {"policy":"sms","refunded":1}
			POST /v1/refund {$sms,"n":9,"granted_at_us":%d} => 200 {"policy":"sms","refunded":3}
			POST /v1/refund {$sms,"at":"1999-01-01T00:00:00Z"} => 200 {"policy":"sms","refunded":0}
			DELETE /v1/keys/sms?phone=%%2B1+555 => 204
			POST /v1/peek {$sms} => 200 …"remaining":10,…
		`, time.Now().UnixMicro()))
	})
}

// Equal bytes in different forms of JSON and queries are one key. Different bytes are
// different keys.
func TestKeysAreOpaque(t *testing.T) {
	s, _ := newServer(t, nil)
	for _, key := range []struct{ json, query string }{
		{`\u0000`, "%00"}, {`a\nb`, "a%0ab"}, {`{}`, "{}"}, {`a b`, "a+b"}, {`+1`, "%2B1"}, {``, ""},
		{"é", "%C3%A9"}, {`\u00e9x`, "%c3%a9x"}, {`\ud83d\ude00`, "%F0%9F%98%80"}, {`%25`, "%2525"},
	} {
		play(t, s, `
			POST /v1/check {"policy":"search","key":{"ip":"`+key.json+`"}} => 200 …"remaining":1,…
			GET /gate/search?ip=`+key.query+` => 204
			  RateLimit: "search";r=0;…
		`)
	}
	// JSON is UTF-8. At the gate other bytes are keys, too.
	wantProblem(t, "bytes", ask(s, "POST", "/v1/check", `{"policy":"search","key":{"ip":"`+"\xff"+`"}}`), 400, "body, byte 33: invalid UTF-8")
	play(t, s, `
		GET /gate/search?ip=%FF => 204
		  RateLimit: "search";r=1;…
		GET /gate/search?ip=%FE => 204
		  RateLimit: "search";r=1;…
	`)
}

// A full engine rejects new keys, and keeps deciding for the existing ones.
func TestFullStoreRejectsOnlyNewKeys(t *testing.T) {
	s, logged := newServer(t, weir.NewMemory(weir.MaxKeys(1)))
	play(t, s, `
		POST /v1/check {"policy":"search","key":{"ip":"first"}} => 200 {"allowed":true,…
		POST /v1/check {"policy":"search","key":{"ip":"second"}} => 503 …as many keys as it may…
		POST /v1/check {"policy":"search","key":{"ip":"first"}} => 200 {"allowed":true,…
	`)
	if strings.Contains(logged.String(), "second") || !strings.Contains(logged.String(), "no decision could be made") {
		t.Errorf("the log should name the error and not the key: %s", logged)
	}
}

func TestBrowsersOfOtherSitesAreRejected(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		DELETE /v1/keys/search?ip=1
		  Sec-Fetch-Site: cross-site
		=> 403 …another site…
		POST /v1/check {"policy":"search","key":{"ip":"1"}}
		  Sec-Fetch-Site: cross-site
		=> 403 …another site…
		POST /v1/peek {"policy":"search","key":{"ip":"1"}} => 200 …"remaining":2,…
		# a proxy passes the client's header on
		GET /gate/search?ip=1
		  Sec-Fetch-Site: cross-site
		=> 204
	`)
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
