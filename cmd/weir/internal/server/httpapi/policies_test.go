package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/policy"
)

func TestKindOfAListedLimit(t *testing.T) {
	f, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n  p:\n    limits:\n"+
		"      a: 5 per day per user, fixed\n      b: 5 per hour, fixed from the first hit\n      c: 5 per minute\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"fixed", "fixed_from_first", "rolling"} {
		if got := showLimit(f.Policies[0], i); got.Kind != want {
			t.Errorf("limit %s: kind %q, want %q", got.Name, got.Kind, want)
		}
	}
}

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
		{weir.Limit{Max: 5, Window: time.Hour}, `"max":5,"window_ms":3600000,"by":[],"kind":"rolling"}`},
	} {
		p := &policy.Definition{Name: "p", Limits: []weir.Limit{c.limit}}
		got, err := json.Marshal(showLimit(p, 0))
		if err != nil || !strings.HasSuffix(string(got), c.want) {
			t.Errorf("%v: got %s, %v; want the end %s", c.limit.Kind, got, err, c.want)
		}
	}
}
