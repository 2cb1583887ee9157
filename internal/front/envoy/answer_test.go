package envoy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/internal/testkit/redistest/enginetest"
	"github.com/weirlimit/weir/weirredis"
)

const answerConfig = `
domain: answer
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 10, name: per-a}
    metadata: {who: {name: a, rank: 1}, list: [1, two, null, true]}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 5}
    metadata: {who: {name: b, more: yes}, other: 7}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}, metadata: {watched: true}}
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

// With the option, dynamic_metadata marks a denial that was repeated from memory.
func TestMetadataMarksCachedDenials(t *testing.T) {
	_, conn := enginetest.On(t, redistest.Start(t).Addr)
	e, err := weirredis.New(conn, weirredis.DenialCacheTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, metadata := range []bool{false, true} {
		p := connect(t, e, parse(t, answerConfig), func(o *Options) { o.Metadata = metadata })
		descriptor := fmt.Sprintf("a=%v hits:", metadata)
		for i, c := range []struct {
			hits   int
			code   string
			cached bool
		}{{10, "OK", false}, {1, "OVER_LIMIT", false}, {1, "OVER_LIMIT", true}} {
			a := p.ask(descriptor + fmt.Sprint(c.hits))
			cached, marked := a.DynamicMetadata.AsMap()["cached"]
			if a.OverallCode.String() != c.code || marked != (c.cached && metadata) || marked && cached != true {
				t.Errorf("step %d, metadata: %v: got %s, %v, want %s, cached: %v", i, metadata, a.OverallCode, a.DynamicMetadata, c.code, c.cached)
			}
		}
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

// dynamic_metadata repeats the request and merges the metadata of rules that are not
// over. The first of several values stays.
func TestMetadataIsMerged(t *testing.T) {
	p := connect(t, newClock(weir.NewMemory()), parse(t, answerConfig), func(o *Options) { o.Metadata = true })
	r := p.request("a=1", "b=1 hits:2", "watched=x", "none=1 limit:3/HOUR")
	r.HitsAddend = 3
	a, err := p.send(r)
	if err != nil {
		t.Fatal(err)
	}
	m := a.DynamicMetadata.AsMap()
	if got, want := fmt.Sprint(m["metadata"]), "map[list:[1 two <nil> true] other:7 watched:true who:map[more:yes name:a rank:1]]"; got != want {
		t.Errorf("metadata: got %s, want %s", got, want)
	}
	if m["domain"] != "answer" || m["hitsAddend"] != 3.0 || m["degraded"] != nil {
		t.Errorf("got %v", m)
	}
	d := m["descriptors"].([]any)
	if got := fmt.Sprint(d[1]); got != "map[entries:[b=1] hitsAddend:2]" || len(d) != 4 {
		t.Errorf("descriptors[1]: got %s of %d", got, len(d))
	}
	if got := fmt.Sprint(d[3]); !strings.Contains(got, "limit:requests_per_unit:3") || !strings.Contains(got, "HOUR") {
		t.Errorf("descriptors[3]: got %s", got)
	}
	// Descriptors over their limit add no metadata. Merging does not change the rules.
	p.ask("a=1 hits:7")
	a = p.ask("a=1", "b=1 hits:0")
	if got, want := fmt.Sprint(a.DynamicMetadata.AsMap()["metadata"]), "map[other:7 who:map[more:yes name:b]]"; got != want {
		t.Errorf("metadata: got %s, want %s", got, want)
	}
}

// With Shadow every answer is OK, and the statuses show the denials.
func TestGlobalShadowShowsDenialsInStatuses(t *testing.T) {
	p := connect(t, newClock(weir.NewMemory()), parse(t, answerConfig), func(o *Options) { o.Shadow = true })
	p.wants("OK | OK 0/5 1m0s", "b=1 hits:5")
	p.wants("OK | OVER_LIMIT 0/5 1m0s | OK 10/10 0s", "b=1", "a=1")
}

// With Quota every rule has quota_mode.
func TestGlobalQuotaAppliesToEveryRule(t *testing.T) {
	p := connect(t, newClock(weir.NewMemory()), parse(t, answerConfig), func(o *Options) { o.Quota = true })
	p.wants("OK | OK 0/5 1m0s", "b=1 hits:5")
	p.wants("OK | OVER_LIMIT 0/5 1m0s | OK 9/10 1m0s", "b=1", "a=1")
	p.wants("OVER_LIMIT | OVER_LIMIT 0/5 1m0s", "b=1")
	p.wants("OK | OVER_LIMIT 0/5 1m0s | OK", "b=1", "none=1")
	p.wants("OVER_LIMIT | OVER_LIMIT 0/5 1m0s | OK 4294967295", "b=1", "free=1")
}
