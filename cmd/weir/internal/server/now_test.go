package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// TestFrontsDecideNow: no call of a front has an instant, so each is decided by the engine's
// clock. All of their units count now, and the instants in answers are those of the clock.
func TestFrontsDecideNow(t *testing.T) {
	e := weir.NewMemory()
	s, _ := newServer(t, e, withRESP, withGRPC(t))
	start(t, s)
	conn := proxyOf(t, s, nil)
	const body = `"policy":"sms","key":{"phone":"1"}`
	fronts := []struct {
		name string
		call func() (at string) // RFC 3339, or microseconds since 1970; "" if the answer has none
	}{
		{"check", func() string { return memberAt(ask(s, "POST", "/v1/check", "{"+body+"}").body) }},
		{"checks", func() string { return memberAt(ask(s, "POST", "/v1/checks", `{"checks":[{`+body+`}]}`).body) }},
		{"together", func() string {
			return memberAt(ask(s, "POST", "/v1/checks", `{"together":true,"checks":[{`+body+`}]}`).body)
		}},
		{"record", func() string { return memberAt(ask(s, "POST", "/v1/record", "{"+body+"}").body) }},
		{"reserve", func() string { return memberAt(ask(s, "POST", "/v1/reserve", "{"+body+"}").body) }},
		{"gate", func() string { return ask(s, "GET", "/gate/sms?phone=1", "").header.Get("At") }},
		{"resp", func() string {
			return strings.Trim(strings.Fields(sendTo(t, plainly(s), "WEIR.CHECK sms phone=1"))[7], ":")
		}},
		{"envoy", func() string {
			if _, err := rateLimit(t, conn, "", "sms", "phone=1"); err != nil {
				t.Error(err)
			}
			return ""
		}},
	}
	clock, err := weir.New(weir.Policy{Name: "clock", Limits: []weir.Limit{weir.PerSecond(1)}}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	now := func() int64 {
		d, err := clock.Peek(t.Context(), weir.K(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return d.At.UnixMicro()
	}
	for i, front := range fronts {
		before := now()
		text := front.call()
		after := now()
		at, err := strconv.ParseInt(text, 10, 64)
		if strings.Contains(text, "T") {
			parsed, failed := time.Parse(time.RFC3339Nano, text)
			at, err = parsed.UnixMicro(), failed
		}
		if text != "" && (err != nil || at < before || at > after) {
			t.Errorf("%s: decided at %q, %v; want %d to %d", front.name, text, err, before, after)
		}
		play(t, s, fmt.Sprintf(`
			# %s
			POST /v1/peek {%s} => 200 …"used":%d,…
		`, front.name, body, i+1))
	}
}

// memberAt returns the first member at of a JSON text.
func memberAt(text string) string {
	_, rest, _ := strings.Cut(text, `"at":"`)
	at, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return fmt.Sprintf("no at in %s", text)
	}
	return at
}
