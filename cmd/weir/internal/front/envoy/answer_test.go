package envoy

import (
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weirlimit/weir"
)

const answerConfig = `
domain: answer
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 10, name: per-a}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 5}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}}
`

func fields(h []*core.HeaderValue) string {
	var all []string
	for _, v := range h {
		all = append(all, v.Key+"="+v.Value)
	}
	return strings.Join(all, " ")
}

// The header fields describe the descriptor nearest to its limit.
func TestHeadersDescribeTheNearestLimit(t *testing.T) {
	c := newClock(weir.NewMemory())
	p := connect(t, c, parse(t, answerConfig), func(o *Options) {
		o.Response = &DefaultHeaders
		o.Request = &Headers{"x-limit", "x-remaining", "x-reset"}
	})
	for _, each := range []struct{ descriptors, want string }{
		{"a=1", "RateLimit-Limit=10 RateLimit-Remaining=9 RateLimit-Reset=60"},
		{"a=1 b=1", "RateLimit-Limit=5 RateLimit-Remaining=4 RateLimit-Reset=60"},
		{"free=1", ""},
		{"none=1", ""},
		{"a=2 free=1 none=1", "RateLimit-Limit=10 RateLimit-Remaining=9 RateLimit-Reset=60"},
	} {
		a := p.ask(strings.Fields(each.descriptors)...)
		if got := fields(a.ResponseHeadersToAdd); got != each.want {
			t.Errorf("%s: got %s, want %s", each.descriptors, got, each.want)
		}
		want := strings.NewReplacer("RateLimit-Limit", "x-limit", "RateLimit-Remaining", "x-remaining", "RateLimit-Reset", "x-reset").Replace(each.want)
		if got := fields(a.RequestHeadersToAdd); got != want {
			t.Errorf("%s: request: got %s, want %s", each.descriptors, got, want)
		}
	}
	// A denial: the last descriptor that denies, with seconds rounded up.
	p.ask("a=3 hits:10")
	c.pass(59*time.Second + 1)
	a := p.ask("a=3", "b=2 hits:6", "watched=1")
	if got, want := fields(a.ResponseHeadersToAdd), "RateLimit-Limit=5 RateLimit-Remaining=5 RateLimit-Reset=60"; got != want {
		t.Errorf("two deny: got %s, want %s", got, want)
	}
	a = p.ask("a=3", "b=2")
	if got, want := fields(a.ResponseHeadersToAdd), "RateLimit-Limit=10 RateLimit-Remaining=0 RateLimit-Reset=1"; got != want {
		t.Errorf("one denies: got %s, want %s", got, want)
	}
}

// Without the options an answer has no header fields and no metadata.
func TestPlainAnswerHasNoHeadersOrMetadata(t *testing.T) {
	p := connect(t, weir.NewMemory(), parse(t, answerConfig))
	a := p.ask("a=1", "b=1")
	if a.ResponseHeadersToAdd != nil || a.RequestHeadersToAdd != nil || a.DynamicMetadata != nil || a.RawBody != nil || a.Quota != nil {
		t.Errorf("got %v", a)
	}
	if l := a.Statuses[0].CurrentLimit; l.Name != "per-a" || l.UnitMultiplier != nil {
		t.Errorf("current_limit %v, want the name per-a and no multiplier", l)
	}
}
