package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// served returns a server on the Redis at an address, which serves until the end of the test, or
// until stop is called.
func served(t *testing.T, address string) (s *Server, stop func()) {
	t.Helper()
	e, _ := enginetest.On(t, address)
	around := fallback.New(e, fallback.Deny, fallback.Timeout(time.Second))
	t.Cleanup(around.Close)
	s, _ = newServer(t, around)
	must.Do(t, s.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Serve(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return s, stop
}

// maxOf returns the number of search for an address on a server.
func maxOf(t *testing.T, s *Server, ip string) int64 {
	t.Helper()
	var answer struct {
		Limits []struct{ Max int64 }
	}
	r := ask(s, "POST", "/v1/peek", fmt.Sprintf(`{"policy":"search","key":{"ip":%q}}`, ip))
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || len(answer.Limits) != 1 {
		return -1 // the store is away
	}
	return answer.Limits[0].Max
}

// TestOverridesReachOtherInstances sets overrides on one instance and measures the time until
// another one applies them, also after an outage of the store.
func TestOverridesReachOtherInstances(t *testing.T) {
	redis := redistest.Start(t)
	first, stopFirst := served(t, redis.Addr)
	second, _ := served(t, redis.Addr)
	var took []time.Duration
	set := func(n int64) {
		t.Helper()
		body := fmt.Sprintf(`{"key":{"ip":"1"},"max":%d,"reason":"r","author":"a","force":true}`, n)
		if r := ask(first, "PUT", "/v1/overrides/search", body); r.status != 200 {
			t.Fatal(r)
		}
		if got := maxOf(t, first, "1"); got != n {
			t.Fatalf("on the instance itself: %d, want %d", got, n)
		}
		began := time.Now()
		must.Await(t, "the other instance applies the override", func() bool { return maxOf(t, second, "1") == n })
		took = append(took, time.Since(began))
	}
	for n := range int64(10) {
		set(10 + n)
	}
	slices.Sort(took)
	t.Logf("the time until the other instance has applied a change: %v", took)
	if took[5] > time.Second { // the longest is that of a busy machine
		t.Errorf("half of the changes reached the other instance after %v, want at most 1s", took[5])
	}

	redis.Freeze(t)
	if r := ask(first, "PUT", "/v1/overrides/search", `{"key":{"ip":"1"},"max":99,"reason":"r","author":"a"}`); r.status != 503 {
		t.Errorf("during the outage: %v", r)
	}
	redis.Thaw(t)
	must.Await(t, "the first instance decides again", func() bool { return maxOf(t, first, "1") > 0 })
	took = nil
	set(100)
	t.Logf("after an outage: %v", took)

	// A later instance has them from its first decision on.
	third, _ := served(t, redis.Addr)
	res, err := http.Post("http://"+third.Addr()+"/v1/peek", "application/json", strings.NewReader(`{"policy":"search","key":{"ip":"1"}}`))
	must.Do(t, err)
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if !strings.Contains(string(body), `"max":100`) {
		t.Errorf("the first decision of a later instance: %s, want max 100", body)
	}
	must.Await(t, "three instances are there", func() bool {
		return strings.Count(ask(second, "GET", "/v1/instances", "").body, `"name"`) == 3
	})

	var stats httpapi.Stats
	must.Await(t, "a heartbeat is written", func() bool { // the last one may have failed in the outage
		readStrictly(t, ask(second, "GET", "/v1/stats", "").body, &stats)
		return stats.Health.WriteMS > 0
	})
	if ms := stats.Health.WriteMS; ms > beatEvery.Seconds()*1e3 {
		t.Errorf("a heartbeat was written in %v ms", ms)
	}

	// An instance that ends is not listed any more.
	stopFirst()
	var list httpapi.InstanceList
	r := ask(second, "GET", "/v1/instances", "")
	readStrictly(t, r.body, &list)
	if len(list.Instances) != 2 || !list.Instances[0].Here || list.Instances[1].Here || list.Instances[1].Listen != third.Addr() {
		t.Errorf("after the end of the first: %s", r.body)
	}
}

// TestInstancesWithoutStore: while the store is away, the instance lists itself and says so.
func TestInstancesWithoutStore(t *testing.T) {
	s, _ := newServer(t, fallback.New(down{}, fallback.Deny))
	var list httpapi.InstanceList
	r := ask(s, "GET", "/v1/instances", "")
	readStrictly(t, r.body, &list)
	if len(list.Instances) != 1 || list.Problem == "" {
		t.Error(r.body)
	}
}
