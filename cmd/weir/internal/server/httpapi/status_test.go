package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirhttp"
)

// The members of buckets, periods and concurrency limits appear only for these.
func TestMembersOfEachListedKind(t *testing.T) {
	for _, c := range []struct {
		limit weir.Limit
		want  string
	}{
		{weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 20}, `"max":10,"window_ms":1000,"by":[],"kind":"bucket","burst":20}`},
		{weir.Limit{Kind: weir.Bucket, Max: 10, Window: time.Second}, `"max":10,"window_ms":1000,"by":[],"kind":"bucket","burst":10}`},
		{weir.Limit{Kind: weir.Concurrency, Max: 20, MaxHold: 30 * time.Second}, `"max":20,"window_ms":30000,"by":[],"kind":"concurrency","max_hold_ms":30000}`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Period: weir.Day, Window: 24 * time.Hour, Zone: "Europe/Berlin"}, `"max":5,"window_ms":86400000,"by":[],"kind":"fixed","period":"day","zone":"Europe/Berlin"}`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Period: weir.Month, Anchor: 14}, `"max":5,"window_ms":2678400000,"by":[],"kind":"fixed","period":"month","zone":"UTC","anchor":14}`},
		{weir.Limit{Kind: weir.Fixed, Max: 5, Window: time.Hour}, `"max":5,"window_ms":3600000,"by":[],"kind":"fixed"}`},
		{weir.Limit{Kind: weir.FixedFromFirst, Max: 5, Window: time.Hour}, `"max":5,"window_ms":3600000,"by":[],"kind":"fixed_from_first"}`},
		{weir.Limit{Max: 5, Window: time.Hour}, `"max":5,"window_ms":3600000,"by":[],"kind":"rolling"}`},
	} {
		p := &policy.Definition{Name: "p", Limits: []weir.Limit{c.limit}}
		got, err := json.Marshal(showLimit(p, 0))
		if err != nil || !strings.HasSuffix(string(got), c.want) {
			t.Errorf("%v: got %s, %v; want the end %s", c.limit.Kind, got, err, c.want)
		}
	}
}

// TestRateLimitFieldsAreStructured: a reader of structured fields by other authors reads the
// fields of each kind, after a grant and after a denial.
func TestRateLimitFieldsAreStructured(t *testing.T) {
	for _, limit := range []weir.Limit{
		{Max: 2, Window: time.Minute, MinInterval: 3 * time.Second},
		{Kind: weir.Bucket, Max: 10, Window: time.Second, Burst: 2},
		{Kind: weir.Concurrency, Max: 2, MaxHold: 30 * time.Second},
		{Kind: weir.Fixed, Max: 2, Period: weir.Day, Zone: "Europe/Berlin"},
		{Kind: weir.FixedFromFirst, Max: 2, Window: time.Minute},
	} {
		limit.Name = "limit"
		l := must.Get(weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{limit}}))(t)
		for _, n := range []int64{1, 2} {
			o := weirhttp.Outcome{Compiled: l.Compiled(), N: n, States: make([]weir.LimitState, 1)}
			o.Decision = must.Get(l.Decide(t.Context(), o.Key, weir.Request{N: n, States: o.States}))(t)
			h := http.Header{}
			o.WriteHeaders(h)
			fields := append(h["Ratelimit"], h["RateLimit"]...)
			fields = append(fields, weirhttp.PolicyField(l.Compiled()))
			if list, err := httpsfv.UnmarshalList(fields); err != nil || len(list) < 2 {
				t.Errorf("%v, %d units: %q: got %d members, %v", limit.Kind, n, fields, len(list), err)
			}
		}
	}
}
