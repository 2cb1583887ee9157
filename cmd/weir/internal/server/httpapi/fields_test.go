package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirhttp"
)

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
		l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{limit}})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{1, 2} {
			o := weirhttp.Outcome{Compiled: l.Compiled(), N: n, States: make([]weir.LimitState, 1)}
			if o.Decision, err = l.Decide(t.Context(), o.Key, weir.Request{N: n, States: o.States}); err != nil {
				t.Fatal(err)
			}
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
