package envoy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// grant is a number of granted hits, at an instant between request and answer.
type grant struct {
	sent, received time.Duration
	hits           int64
}

// busiest returns the most hits that were certainly granted within one window: between
// the request of one of them and a window later.
func busiest(all []grant, window time.Duration) (most int64) {
	slices.SortFunc(all, func(a, b grant) int { return int(a.sent - b.sent) })
	for i, first := range all {
		hits := int64(0)
		for _, g := range all[i:] {
			if g.sent >= first.sent+window {
				break
			}
			if g.received < first.sent+window {
				hits += g.hits
			}
		}
		most = max(most, hits)
	}
	return most
}

// An external auditor records when requests were sent and answered. No second may hold
// more than a limit. Many clients send requests over separate connections: for one limit,
// for several at once, and in steps that are rolled back.
func TestNoWindowExceedsItsLimit(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	t.Run("memory", func(t *testing.T) { t.Parallel(); audit(t, weir.NewMemory()) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); audit(t, onRedis(t)) })
}

// audit sends requests to an engine on its own clock until every limit was used up more
// than three times.
func audit(t *testing.T, e engine.Engine) {
	most := map[string]int64{"a": 40, "b": 60, "c": 25}
	p := connect(t, e, parse(t, `
domain: audit
descriptors:
  - {key: a, rate_limit: {unit: second, requests_per_unit: 40}}
  - {key: b, rate_limit: {unit: second, requests_per_unit: 60}}
  - {key: c, value: "*", share_threshold: true, rate_limit: {unit: second, requests_per_unit: 25}}
`))
	requests := [][]string{{"a=1"}, {"a=1 hits:3"}, {"a=1", "b=1"}, {"b=1 hits:2", "c=1", "a=1"}, {"c=1", "c=2"}, {"b=1", "b=1"}}
	granted := map[string][]grant{} // by history
	hits := map[string]int64{}
	denied := 0
	var mu sync.Mutex // protects granted, hits and denied
	// enough reports whether every history was filled more than three times.
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return hits["a"] > 3*most["a"] && hits["b"] > 3*most["b"] && hits["c"] > 3*most["c"]
	}
	began := time.Now()
	var clients sync.WaitGroup
	for client := range 12 {
		own := *p
		own.conn = serve(t, p.service)
		own.c = pb.NewRateLimitServiceClient(own.conn)
		clients.Go(func() {
			for i := client; !enough() && time.Since(began) < patience; i++ {
				r := own.request(requests[i%len(requests)]...)
				sent := time.Since(began)
				a, err := own.send(r)
				received := time.Since(began)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if a.OverallCode != pb.RateLimitResponse_OK {
					denied++
				}
				wait := time.Duration(0)
				for i, d := range r.Descriptors {
					if history := d.Entries[0].Key; a.OverallCode == pb.RateLimitResponse_OK {
						n := max(int64(d.HitsAddend.GetValue()), 1)
						granted[history] = append(granted[history], grant{sent, received, n})
						hits[history] += n
					} else if st := a.Statuses[i]; int64(st.LimitRemaining) > most[history] {
						t.Errorf("%s: %d remain of %d", history, st.LimitRemaining, most[history])
					} else if st.Code != pb.RateLimitResponse_OK {
						wait = max(wait, st.DurationUntilReset.AsDuration())
					}
				}
				mu.Unlock()
				time.Sleep(time.Duration(rand.Int64N(int64(wait) + 1))) // too early, or just in time
			}
		})
	}
	clients.Wait()
	if denied == 0 || !enough() {
		t.Errorf("%d denials, granted %v: the test needs more traffic", denied, hits)
	}
	var found []string
	for history, all := range granted {
		n := busiest(all, time.Second)
		found = append(found, fmt.Sprintf("%s %d of %d", history, n, most[history]))
		if n > most[history] {
			t.Errorf("%s: %d hits in one second, the limit is %d", history, n, most[history])
		}
	}
	slices.Sort(found)
	t.Logf("%d denials; the busiest seconds: %s", denied, strings.Join(found, ", "))
}

// The auditor can fail: with fixed windows it finds twice the limit across an edge.
func TestAuditorFindsExcesses(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).Add(900 * time.Millisecond)
	p := connect(t, weir.NewMemory(), parse(t, "domain: fixed\ndescriptors: [{key: a, rate_limit: {unit: second, requests_per_unit: 5}}]"),
		func(o *Options) { o.Windows, o.Now = Fixed, func() time.Time { return now } })
	var all []grant
	for i := range 20 {
		if i == 10 {
			now = now.Add(200 * time.Millisecond)
		}
		at := now.Sub(time.Unix(1_800_000_000, 0))
		if p.ask("a=1").OverallCode == pb.RateLimitResponse_OK {
			all = append(all, grant{at, at, 1})
		}
	}
	if got := busiest(all, time.Second); got != 10 {
		t.Errorf("the busiest second has %d hits, want 10", got)
	}
}
