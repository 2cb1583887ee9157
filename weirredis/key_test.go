package weirredis_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/dims"
	"github.com/weirlimit/weir/internal/redisslot"
	"github.com/weirlimit/weir/internal/testkit/assert"
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
	p.Dimensions = dims.Of(p.Limits...)
	rules, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestKeys(t *testing.T) {
	push := plan(t, weir.Policy{Name: "push", Limits: []weir.Limit{{Name: "teacher", By: []string{"teacher"}}}})
	both := plan(t, weir.Policy{Name: "api", Limits: []weir.Limit{
		{Name: "tenant", By: []string{"tenant"}}, {Name: "user", By: []string{"user", "tenant"}}}})
	all := plan(t, weir.Policy{Name: "alerts", Limits: []weir.Limit{{Name: "channel"}, {Name: "category", By: []string{"category"}}}})
	kinds := plan(t, weir.Policy{Name: "kinds", Limits: []weir.Limit{
		{Name: "a", By: []string{"user"}}, {Name: "b", Kind: weir.KindFixed, By: []string{"user"}}, {Name: "c", Kind: weir.KindFixedFromFirst},
		{Name: "d", Kind: weir.KindBucket, Max: 1}, {Name: "e", Kind: weir.KindConcurrency, Max: 1, MaxHold: time.Minute}}})
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
		assert.Equal(t, redisslot.Of(key), want, "slot of %q", key)
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
		if got := redisslot.Describe(p); got != c.want || redisslot.Pinned(p) != c.pinned {
			t.Errorf("got pinned=%v, %q, want pinned=%v, %q", redisslot.Pinned(p), got, c.pinned, c.want)
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
		k, err := p.Key(values)
		if err != nil {
			t.Fatal(err)
		}
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
					assert.Equal(t, redisslot.Of(key), redisslot.Of(keys[0]), "slots of %q and %q", key, keys[0])
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
		if d := mustAllowOnce(t, l, weir.K("u"), 1, "id"); !d.Allowed || d.Replayed {
			t.Errorf("prefix %q: got %+v, want a grant", prefix, d)
		}
		key := prefix + weirredis.Keys(l.Compiled(), weir.K("u"), false)[0]
		assert.Equal(t, s.Must(t, "EXISTS", key), "1", "prefix %q: keys %q", prefix, key)
		if prefix == "staging:" {
			if _, err := l.Reset(ctx, weir.K("u")); err != nil {
				t.Fatal(err)
			}
			assert.Equal(t, s.Must(t, "EXISTS", key), "0", "keys %q after a reset", key)
		}
	}
	for _, bad := range []string{"{a}", "a{", strings.Repeat("a", 65)} {
		_, err := weirredis.New(redisConn(t), weirredis.KeyPrefix(bad))
		assert.Error(t, err, weir.ErrInput, "staging:")
	}
}

// TestOperationsAreStoredForTheLongestWindow: a recorded operation is stored until its
// longest window has passed, in the slot of its histories. A denied one stores no key (R4,
// R13).
func TestOperationsAreStoredForTheLongestWindow(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	for _, window := range []time.Duration{10 * time.Second, time.Hour} {
		l := limiter(t, e, "op"+window.String(), weir.AllOrNothing, perUser(1, window))
		key := weirredis.OperationKey(l.Compiled(), weir.K("u"), "first", false)
		before := time.Now()
		mustAllowOnce(t, l, weir.K("u"), 1, "first")
		least := l.Compiled().IdempotencyTTL
		if got := ttl(t, s, key); shorter(got, least, before) || got > least+5*time.Second {
			t.Errorf("window %v: the operation lives %v, want %v", window, got, least)
		}
		assert.Equal(t, mustAllowOnce(t, l, weir.K("u"), 1, "second").Granted, 0, "window %v: grant of a second unit", window)
		assert.Equal(t, s.Must(t, "EXISTS", weirredis.OperationKey(l.Compiled(), weir.K("u"), "second", false)), "0", "window %v: keys of a denial", window)
		mustDecide(t, l.At(nine), weir.K("v"), weir.Request{N: 1, ID: "virtual"})
		if got := ttl(t, s, weirredis.OperationKey(l.Compiled(), weir.K("v"), "virtual", false)); got < time.Hour+least-time.Minute {
			t.Errorf("window %v: an operation of the caller's time lives %v", window, got)
		}
	}
}

// TestResetsFindTheHistories: the rules of a reset of some limits name the histories of the whole
// policy, in a Cluster too (R10).
func TestResetsFindTheHistories(t *testing.T) {
	p := plan(t, weir.Policy{Name: "p", Limits: []weir.Limit{
		{Name: "a", Max: 1, By: []string{"user", "zone"}}, {Name: "b", Max: 1, By: []string{"zone"}}, {Name: "c", Max: 1, By: []string{"app", "zone"}}}})
	whole := map[string]string{"user": "u", "zone": "z", "app": "x"}
	for _, names := range [][]string{{"a"}, {"b"}, {"c"}, {"b", "c"}} {
		rules, err := p.Resets(names)
		if err != nil {
			t.Fatal(err)
		}
		own := map[string]string{}
		for _, name := range rules.Dimensions {
			own[name] = whole[name]
		}
		for _, cluster := range []bool{false, true} {
			got, err := p.Key(whole)
			if err != nil {
				t.Fatal(err)
			}
			all := weirredis.Keys(p, got, cluster)
			got, err = rules.Key(own)
			if err != nil {
				t.Fatal(err)
			}
			for i, key := range weirredis.Keys(rules, got, cluster) {
				assert.Equal(t, key, all[p.LimitNamed(names[i])], "the key of limit %s in a reset of %q, cluster %v", names[i], names, cluster)
			}
		}
	}
}

// TestOperationsShareTheSlot: all keys of a call hash to one slot, and no two
// operations share a key (R14).
func TestOperationsShareTheSlot(t *testing.T) {
	p := plan(t, weir.Policy{Name: "p", Limits: []weir.Limit{
		{Name: "a", Max: 1, By: []string{"user", "ip"}}, {Name: "b", Max: 1, By: []string{"ip"}}}})
	seen := map[string]bool{}
	for _, k := range []weir.Key{weir.K("u", "1"), weir.K("u", "2"), weir.K("u:1", ""), weir.K("", "u:1"), weir.K("}", "{")} {
		for _, id := range []string{"x", "1:x", "x:", ":", "}", "{x}"} {
			key := weirredis.OperationKey(p, k, id, true)
			if seen[key] {
				t.Errorf("two operations share the key %q", key)
			}
			seen[key] = true
			for _, history := range weirredis.Keys(p, k, true) {
				assert.Equal(t, redisslot.Of(key), redisslot.Of(history), "slots of %q and %q", key, history)
			}
		}
	}
}

// TestForeignOperationIsNotChanged: foreign or damaged data under the key of an operation are an
// error that names only this key. They are not changed, and nothing is recorded.
func TestForeignOperationIsNotChanged(t *testing.T) {
	s := redistest.Shared(t)
	l := limiter(t, newEngine(t, redisConn(t)), "foreign-op", weir.AllOrNothing, perUser(5, time.Hour))
	key := weirredis.OperationKey(l.Compiled(), weir.K("u"), "op", false)
	mustAllowOnce(t, l, weir.K("u"), 1, "op")
	if _, err := l.Reset(ctx, weir.K("u")); err != nil {
		t.Fatal(err)
	}
	whole := s.Must(t, "GET", key)
	const reset = 54 // of 7 bytes
	far := whole[:reset] + "\xff" + whole[reset+1:]
	for _, set := range [][]string{{"SET", key, whole + "x"}, {"SET", key, far}, {"SET", key, ""}, {"SET", key, "hello"}, {"SET", key, "\x01short"}, {"SET", key, "\x02"}, {"HSET", key, "f", "v"}} {
		s.Do("DEL", key)
		s.Must(t, set...)
		before := s.Must(t, "DUMP", key)
		_, err := l.AllowOnce(ctx, weir.K("u"), 1, "op")
		assert.Error(t, err, weirredis.ErrState, "under "+strconv.Quote(key)+": ")
		assert.Equal(t, s.Must(t, "DUMP", key), before, "%q: it was changed", set)
	}
	n, err := l.Count(ctx, weir.K("u"), "user", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, n, 0, "units that were recorded")
}

// TestOperationsOfABatchHaveTheirOwnHistories decides operations and other attempts under one and
// two limits in one batch. A second batch replays the operations and charges nothing for them (R15).
func TestOperationsOfABatchHaveTheirOwnHistories(t *testing.T) {
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	one := limiter(t, e, fmt.Sprint("own", time.Now().UnixNano()), weir.AllOrNothing, perUser(9, time.Hour)).Compiled()
	two := limiter(t, e, one.Name+"two", weir.AllOrNothing, perUser(9, time.Hour), weir.Limit{Name: "all", Max: 99, Window: time.Hour}).Compiled()
	for round := range int64(2) {
		calls := []engine.Call{
			{Rules: one, Key: weir.K("a"), N: 1, ID: "1"},
			{Rules: two, Key: weir.K("a"), N: 1, ID: "1"},
			{Rules: one, Key: weir.K("b"), N: 1},
			{Rules: two, Key: weir.K("b"), N: 1},
			{Rules: one, Key: weir.K("c"), N: 1, ID: "2"},
			{Rules: two, Key: weir.K("c"), N: 1},
		}
		e.DecideBatch(ctx, calls)
		for i, c := range calls {
			left := int64(8)
			if c.ID == "" {
				left -= round
			}
			if c.Err != nil || !c.Result.Allowed || c.Result.Remaining != left || c.Result.Replayed != (c.ID != "" && round == 1) {
				t.Errorf("round %d, call %d: got %+v, %v, want %d left", round, i, c.Result, c.Err, left)
			}
		}
	}
}

// TestReplayNamesARemovedLimit: a retry returns the stored decision with the name of the
// limit that bound, even if the policy has lost that limit (R12, R15).
func TestReplayNamesARemovedLimit(t *testing.T) {
	e := newEngine(t, redisConn(t))
	name, key := fmt.Sprint("removed", time.Now().UnixNano()), weir.K("u")
	small := weir.Limit{Name: "small", Max: 1, Window: time.Hour, By: []string{"user"}}
	first := mustAllowOnce(t, limiter(t, e, name, weir.Partial, perUser(9, time.Hour), small), key, 2, "id")
	if first.Granted != 1 || first.Limit != "small" {
		t.Fatalf("got %+v, want one unit, bound by small", first)
	}
	first.Replayed = true
	again := mustAllowOnce(t, limiter(t, e, name, weir.Partial, perUser(9, time.Hour)), key, 2, "id")
	assert.Equal(t, fields(again), fields(first), "without the limit")
}
