package weirredis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
)

// TestPartsShareKeys: the parts of rules have the keys of the whole, in a Cluster, too. By
// its own limits a part would share other dimensions.
func TestPartsShareKeys(t *testing.T) {
	p, err := weir.Policy{Name: "render", Limits: []weir.Limit{
		{Name: "day", Max: 100, Window: 24 * time.Hour, By: []string{"tenant", "user"}},
		{Name: "running", Kind: weir.Concurrency, Max: 3, MaxHold: time.Minute, By: []string{"user"}},
	}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	k := weir.K("acme", "ann")
	for _, cluster := range []bool{false, true} {
		whole := weirredis.Keys(p, k, cluster)
		if got := append(weirredis.Keys(p.Rates, k, cluster), weirredis.Keys(p.Holds, k, cluster)...); !slices.Equal(got, whole) {
			t.Errorf("cluster %v: parts have the keys %q, want %q", cluster, got, whole)
		}
	}
}
