package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/fields"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirhttp"
)

// TestBucketShowsItsCapacity: a bucket that was made in Go may have no burst of its own.
func TestBucketShowsItsCapacity(t *testing.T) {
	p := &policy.Definition{Name: "p", Limits: []weir.Limit{{Kind: weir.KindBucket, Max: 10, Window: time.Second}}}
	if shown := showLimit(p, 0); shown.Burst != 10 {
		t.Errorf("a burst of %d, want that of Max", shown.Burst)
	}
}

// TestRateLimitFieldsAreStructured: a reader of structured fields by other authors reads the
// fields of each kind, after a grant and after a denial.
func TestRateLimitFieldsAreStructured(t *testing.T) {
	for _, limit := range []weir.Limit{
		{Max: 2, Window: time.Minute, MinInterval: 3 * time.Second},
		{Kind: weir.KindBucket, Max: 10, Window: time.Second, Burst: 2},
		{Kind: weir.KindConcurrency, Max: 2, MaxHold: 30 * time.Second},
		{Kind: weir.KindFixed, Max: 2, Period: weir.Day, Zone: "Europe/Berlin"},
		{Kind: weir.KindFixedFromFirst, Max: 2, Window: time.Minute},
	} {
		limit.Name = "limit"
		l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{limit}})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{1, 2} {
			o := weirhttp.Outcome{Outcome: weir.Outcome{Rules: l.Compiled(), N: n, States: make([]weir.LimitState, 1)}}
			var err error
			o.Decision, err = l.Decide(t.Context(), o.Key, weir.Request{N: n, States: o.States})
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			o.WriteHeaders(h)
			lines := append(h["Ratelimit"], h["RateLimit"]...)
			lines = append(lines, fields.Policy(l.Compiled()))
			if list, err := httpsfv.UnmarshalList(lines); err != nil || len(list) < 2 {
				t.Errorf("%v, %d units: %q: got %d members, %v", limit.Kind, n, lines, len(list), err)
			}
		}
	}
}
