package weirredis_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

func plan(t testing.TB, p weir.Policy) *engine.Compiled {
	t.Helper()
	for i := range p.Limits {
		l := &p.Limits[i]
		if l.Window == 0 && l.MaxHold == 0 {
			l.Window = time.Minute
		}
	}
	return must.Get(p.Compile())(t)
}

func TestKeys(t *testing.T) {
	push := plan(t, weir.Policy{Name: "push", Limits: []weir.Limit{{Name: "teacher", By: []string{"teacher"}}}})
	both := plan(t, weir.Policy{Name: "api", Limits: []weir.Limit{
		{Name: "tenant", By: []string{"tenant"}}, {Name: "user", By: []string{"user", "tenant"}}}})
	all := plan(t, weir.Policy{Name: "alerts", Limits: []weir.Limit{{Name: "channel"}, {Name: "category", By: []string{"category"}}}})
	kinds := plan(t, weir.Policy{Name: "kinds", Limits: []weir.Limit{
		{Name: "a", By: []string{"user"}}, {Name: "b", Kind: weir.Fixed, By: []string{"user"}}, {Name: "c", Kind: weir.FixedFromFirst},
		{Name: "d", Kind: weir.Bucket, Max: 1}, {Name: "e", Kind: weir.Concurrency, Max: 1, MaxHold: time.Minute}}})
	for _, c := range []struct {
		plan    *engine.Compiled
		key     weir.Key
		cluster bool
		want    string
	}{
		{push, weir.K("42"), false, "weir3:{push}teacher:teacher=2:42"},
		{push, weir.K("42"), true, "weir3:{push:GF9c0j}teacher:teacher=2:42"},
		{push, weir.K(""), false, "weir3:{push}teacher:teacher=0:"},
		{push, weir.K("a}b{\x00:=\n"), false, "weir3:{push}teacher:teacher=8:a}b{\x00:=\n"},
		{both, weir.K("acme", "ann"), false, "weir3:{api}tenant:tenant=4:acme weir3:{api}user:tenant=4:acme:user=3:ann"},
		{both, weir.K("acme", "ann"), true, "weir3:{api:Sf-vI6}tenant:tenant=4:acme weir3:{api:Sf-vI6}user:tenant=4:acme:user=3:ann"},
		{kinds, weir.K("ann"), false, "weir3:{kinds}a:user=3:ann weir3:{kinds}b/fixed:user=3:ann weir3:{kinds}c/fixed_from_first weir3:{kinds}d/bucket weir3:{kinds}e/concurrency"},
		{all, weir.K("disk"), true, "weir3:{alerts}channel weir3:{alerts}category:category=4:disk"},
	} {
		assert.Equal(t, strings.Join(weirredis.Keys(c.plan, c.key, c.cluster), " "), c.want, "keys of %s, cluster=%v", c.plan.Name, c.cluster)
	}
}

func TestSlot(t *testing.T) {
	// Slots are from CLUSTER KEYSLOT of Redis 7.0.15.
	for key, want := range map[string]int{
		"123456789": 12739, "foo": 12182, "": 0, "{foo}bar": 12182, "a{foo}{bar}": 12182, "{}foo": 9500, "foo{": 7673, "{foo": 13308,
	} {
		assert.Equal(t, weirredis.Slot(key), want, "slot of %q", key)
	}
}

func TestSlotting(t *testing.T) {
	user := weir.Limit{Name: "user", By: []string{"tenant", "user"}}
	for _, c := range []struct {
		limits []weir.Limit
		pinned bool
		want   string
	}{
		{[]weir.Limit{user}, false, "policy p is spread over the slots of a Cluster by tenant and user"},
		{[]weir.Limit{user, {Name: "tenant", By: []string{"tenant"}}}, false, "policy p is spread over the slots of a Cluster by tenant"},
		{[]weir.Limit{user, {Name: "all"}}, true, "policy p is pinned to slot 16023 of a Cluster, and so to one server: limit all counts all callers together"},
		{[]weir.Limit{user, {Name: "ip", By: []string{"ip"}}}, true,
			"policy p is pinned to slot 16023 of a Cluster, and so to one server: its limits have no dimension in common"},
	} {
		p := plan(t, weir.Policy{Name: "p", Limits: c.limits})
		if got := weirredis.DescribeSlots(p); got != c.want || weirredis.Pinned(p) != c.pinned {
			t.Errorf("got pinned=%v, %q, want pinned=%v, %q", weirredis.Pinned(p), got, c.pinned, c.want)
		}
	}
}

// TestKeysDoNotDependOnTheOrderOfLimits: a history keeps its key when the limits of its
// policy, and so its dimensions, change their order, also in a Cluster (R12).
func TestKeysDoNotDependOnTheOrderOfLimits(t *testing.T) {
	few := weir.Limit{Name: "few", By: []string{"tenant", "user"}}
	many := weir.Limit{Name: "many", By: []string{"user", "ip", "tenant"}}
	values := map[string]string{"tenant": "t", "user": "u", "ip": "i"}
	keys := func(cluster bool, limits ...weir.Limit) map[string]string {
		p := plan(t, weir.Policy{Name: "p", Limits: limits})
		k := must.Get(p.Key(values))(t)
		byName := map[string]string{}
		for i, key := range weirredis.Keys(p, k, cluster) {
			byName[limits[i].Name] = key
		}
		return byName
	}
	for _, cluster := range []bool{false, true} {
		if one, other := keys(cluster, few, many), keys(cluster, many, few); !maps.Equal(one, other) {
			t.Errorf("cluster %v: %q, the other way round %q", cluster, one, other)
		}
	}
}

// FuzzKey searches for two histories with one key, and for a decision with keys in two
// slots (R14).
func FuzzKey(f *testing.F) {
	f.Add("a", "b", "a", "b", uint8(0), uint8(1))
	f.Add("1:a", "", "1", ":a", uint8(2), uint8(3))
	f.Add("}x{", "\x00", "}x", "{\x00", uint8(4), uint8(4))
	f.Add("x:user=1:y", "z", "x", "user=1:y:z", uint8(3), uint8(3))
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 string, shape1, shape2 uint8) {
		one, two := fuzzPlan(t, shape1), fuzzPlan(t, shape2)
		k1, k2 := fuzzKey(one, a1, b1), fuzzKey(two, a2, b2)
		for _, cluster := range []bool{false, true} {
			keys1, keys2 := weirredis.Keys(one, k1, cluster), weirredis.Keys(two, k2, cluster)
			for _, keys := range [][]string{keys1, keys2} {
				for _, key := range keys {
					assert.Equal(t, weirredis.Slot(key), weirredis.Slot(keys[0]), "slots of %q and %q", key, keys[0])
				}
			}
			for i, x := range keys1 {
				for j, y := range keys2 {
					same := identity(one, i, k1) == identity(two, j, k2)
					// In a Cluster the limits beside it choose the tag.
					if x == y && !same || x != y && same && !cluster {
						t.Errorf("cluster=%v: keys %q of %q and %q of %q", cluster, x, identity(one, i, k1), y, identity(two, j, k2))
					}
				}
			}
		}
	})
}

// fuzzPlan returns one of a few policies with similar names and dimensions.
func fuzzPlan(t *testing.T, shape uint8) *engine.Compiled {
	t.Helper()
	by := [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"ab"}}
	limits := []weir.Limit{{Name: []string{"a", "ab"}[shape%2], By: by[shape/2%5]}}
	if shape/10%3 > 0 {
		limits = append(limits, weir.Limit{Name: "b", By: by[shape/30%5]})
	}
	return plan(t, weir.Policy{Name: []string{"p", "p.a"}[shape/128], Limits: limits})
}

// fuzzKey fills the dimensions of rules with two values.
func fuzzKey(p *engine.Compiled, a, b string) weir.Key {
	values := map[string]string{"a": a, "b": b, "ab": a + b}
	var ordered []string
	for _, dim := range p.Dimensions {
		ordered = append(ordered, values[dim])
	}
	return weir.K(ordered...)
}

// identity returns the identity of a history (R12) in an unambiguous form.
func identity(p *engine.Compiled, i int, k weir.Key) string {
	l := p.Limits[i]
	parts := []string{p.Name, l.Name}
	for _, dim := range l.By {
		parts = append(parts, p.Dimensions[dim], k.Value(dim))
	}
	return fmt.Sprintf("%q", parts)
}

// TestPrefixesShareNothing: engines with different prefixes share no history, operation or
// reset on one server. A prefix with a brace or of more than 64 bytes is bad input.
func TestPrefixesShareNothing(t *testing.T) {
	s := redistest.Shared(t)
	name := fmt.Sprint("prefixed", time.Now().UnixNano())
	for _, prefix := range []string{"", "staging:", "production:"} {
		l := limiter(t, newEngine(t, redisConn(t), weirredis.KeyPrefix(prefix)), name, weir.AllOrNothing, perUser(1, time.Hour))
		if d := must.Get(l.AllowOnce(ctx, weir.K("u"), 1, "id"))(t); !d.Allowed || d.Replayed {
			t.Errorf("prefix %q: got %+v, want a grant", prefix, d)
		}
		key := prefix + weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
		assert.Equal(t, s.Must(t, "EXISTS", key), "1", "prefix %q: keys %q", prefix, key)
		if prefix == "staging:" {
			must.Do(t, l.Reset(ctx, weir.K("u")))
			assert.Equal(t, s.Must(t, "EXISTS", key), "0", "keys %q after a reset", key)
		}
	}
	for _, bad := range []string{"{a}", "a{", strings.Repeat("a", 65)} {
		assert.Err(weirredis.New(redisConn(t), weirredis.KeyPrefix(bad)))(t, weir.ErrInput, "staging:")
	}
}
