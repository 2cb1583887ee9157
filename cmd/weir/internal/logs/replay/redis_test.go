package replay_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/policy"
)

// TestReplayIsEqualOnMemoryAndRedis replays one trace on both engines: the output must have
// the same bytes.
func TestReplayIsEqualOnMemoryAndRedis(t *testing.T) {
	policies := []weir.Policy{
		{Name: "push", Limits: []weir.Limit{{Name: "limit", Max: 10, Window: time.Minute, MinInterval: 3 * time.Second, By: []string{"teacher"}}}},
		{Name: "alerts", Mode: weir.Partial, Limits: []weir.Limit{
			{Name: "channel", Max: 100, Window: 30 * time.Minute},
			{Name: "category", Max: 10, Window: 30 * time.Minute, By: []string{"category"}, Cells: 30}}},
		{Name: "login", Mode: weir.CountDenied, Limits: []weir.Limit{
			{Name: "ip", Max: 5, Window: time.Minute, By: []string{"ip"}},
			{Name: "user", Max: 20, Window: time.Hour, By: []string{"user"}}}},
	}
	trace := randomTrace(policies, 4000)
	answers := func(e engine.Engine) []byte {
		f := &policy.File{}
		for _, p := range policies {
			f.Policies = append(f.Policies, &policy.Definition{Name: p.Name, Mode: p.Mode, Limits: p.Limits})
		}
		runner, err := replay.New(f, e)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := runner.Run(t.Context(), strings.NewReader(trace), &out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	onRedis, _ := enginetest.On(t, redistest.Start(t).Addr)
	want, got := answers(weir.NewMemory()), answers(onRedis)
	if !bytes.Equal(got, want) {
		lines := strings.Split(trace, "\n")
		gots, wants := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
		for i := range min(len(gots), len(wants)) {
			if !bytes.Equal(gots[i], wants[i]) {
				t.Fatalf("line %d: %s\n redis  %s\n memory %s", i+1, lines[i], gots[i], wants[i])
			}
		}
		t.Fatalf("%d answers from Redis, %d from memory", len(gots), len(wants))
	}
}

// randomTrace writes lines of every kind, forward in time but for a few steps back.
func randomTrace(policies []weir.Policy, n int) string {
	r := rand.New(rand.NewPCG(7, 7))
	at := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC).UnixMicro()
	var b strings.Builder
	for range n {
		p := policies[r.IntN(len(policies))]
		if at += r.Int64N(20_000_000); r.IntN(50) == 0 {
			at -= r.Int64N(60_000_000)
		}
		key := fmt.Sprintf(`{"teacher":"t%d"}`, r.IntN(3))
		switch {
		case strings.HasPrefix(p.Name, "alerts"):
			key = fmt.Sprintf(`{"category":"\u0000c%d}"}`, r.IntN(3))
		case strings.HasPrefix(p.Name, "login"):
			key = fmt.Sprintf(`{"ip":"::%d","user":"u%d"}`, r.IntN(3), r.IntN(2))
		}
		fmt.Fprintf(&b, `{"at_us":%d,"policy":%q,"key":%s,"n":%d`, at, p.Name, key, r.IntN(4))
		switch op := []string{"check", "check", "check", "peek", "record", "refund", "count", "reset"}[r.IntN(8)]; op {
		case "refund":
			fmt.Fprintf(&b, `,"op":"refund","granted_at_us":%d`, at-r.Int64N(2_000_000))
		case "count":
			fmt.Fprintf(&b, `,"op":"count","limit":%q,"last_us":%d`, p.Limits[0].Name, 1+r.Int64N(60_000_000))
		default:
			fmt.Fprintf(&b, `,"op":%q`, op)
		}
		b.WriteString("}\n")
	}
	return b.String()
}
