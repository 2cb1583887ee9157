package fallback

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

func TestDivide(t *testing.T) {
	all := engine.Limit{Name: "all", Max: 11, Window: 60e6}
	bucket := engine.Limit{Name: "b", Max: 10, Window: 60e6, Kind: engine.KindBucket, Capacity: 25}
	small := engine.Limit{Name: "s", Max: 10, Window: 60e6, Kind: engine.KindBucket, Capacity: 1}
	c := engine.Compile("p", engine.Partial, nil, []engine.Limit{all, bucket, small})
	s := divide(c, 2)
	for i, want := range []string{"5 5 Rolling", "5 12 Bucket", "0 0 Rolling"} {
		if l := s.Limits[i]; fmt.Sprint(l.Max, l.Capacity, l.Kind) != want || l.Policy != "p" {
			t.Errorf("share of %s: %d %d %v, want %s", l.Name, l.Max, l.Capacity, l.Kind, want)
		}
	}
	if s.Name != "p" || s.Mode != engine.Partial || c.Limits[0].Max != 11 {
		t.Errorf("share %q in mode %v; the rules have now %d", s.Name, s.Mode, c.Limits[0].Max)
	}
	if s.Limits[1].Refill == c.Limits[1].Refill {
		t.Error("the share of a bucket refills as fast as the whole")
	}
}

// recorder is an engine that keeps the last call.
type recorder struct{ call *engine.Call }

func (r *recorder) Do(_ context.Context, calls []engine.Call) { r.call = &calls[0] }

// TestDivideJoinedRules: a share of joined rules is joined too, on the histories of each
// call's policy.
func TestDivideJoinedRules(t *testing.T) {
	calls := make([]engine.Call, 2)
	for i, policy := range []string{"a", "b"} {
		limit := engine.Limit{Name: "all", Max: 5, Window: 60e6, By: []int{0}}
		calls[i].Rules = engine.Compile(policy, engine.AllOrNothing, []string{"user"}, []engine.Limit{limit})
		calls[i].Key, calls[i].N = engine.K("ann"), 1
	}
	var e recorder
	must.Do(t, engine.Together(t.Context(), &e, calls))
	joined := e.call.Rules
	s := divide(joined, 2)
	for i, policy := range []string{"a", "b"} {
		if l := s.Limits[i]; !s.Joined || l.Max != 2 || l.Cost != 1 || l.Policy != policy || !reflect.DeepEqual(l.Shared, joined.Limits[i].Shared) {
			t.Errorf("the share is joined %t, %+v; want one of %+v", s.Joined, l, joined.Limits[i])
		}
	}
}
