package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/policy"
)

// policyList returns an answer of GET /v1/policies.
func policyList(t *testing.T, text string) *httpapi.PolicyList {
	t.Helper()
	var list httpapi.PolicyList
	must.Do(t, json.Unmarshal([]byte(text), &list))
	return &list
}

// TestExportIsPartOfAFile: a policy file accepts the exported overrides of each kind of limit.
// An export of several limits has each of them until it ends.
func TestExportIsPartOfAFile(t *testing.T) {
	const text = `version: 1
policies:
  p:
    keys: {ip: address}
    limits:
      rolling: 10 messages per 30m per ip, 3s apart, then block 10m
      bucket:  5 per second per ip, burst 9
      day:     100 per day per ip, fixed in Europe/Berlin
      held:    "3 at once per ip, for at most 5m"
      first:   7 per hour per ip, fixed from the first hit
      plain:   9 per minute
`
	f, err := policy.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := f.Policies[0]
	var all []httpapi.Override
	ends := []string{"", "2199-01-01T00:00:00Z", "2198-01-01T00:00:00Z", "", "2199-01-01T00:00:00Z", ""}
	for i := range p.Limits {
		changed := p.With([]policy.Change{{
			Limit: i, Max: 50 + int64(i), Burst: p.Limits[i].Burst * 10, MinInterval: p.Limits[i].MinInterval, Unit: p.Units[i],
		}})
		all = append(all, httpapi.Override{
			Policy: "p", Key: map[string]string{"ip": "10.0.0.0/8"}, Limit: p.Limits[i].Name, Sentence: changed.Sentence(i),
			Until: ends[i], Reason: `a "reason": # {`, Author: "bob", Source: "store",
		})
	}
	all = append(all, httpapi.Override{Policy: "gone", Key: map[string]string{"x": "\n"}, Source: "store", NotApplied: "no policy"})
	exported := exportOverrides(all, policyList(t, `{"policies":[{"name":"p","addresses":{"ip":64}}]}`))
	_, items, _ := strings.Cut(exported, "  p:\n")
	f, err = policy.Parse("weir.yaml", []byte(text+items))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text+items)
	}
	overrides := f.Policies[0].Overrides
	var got []int
	for _, o := range overrides {
		got = append(got, len(o.Changes))
		for _, c := range o.Changes {
			if c.Max != 50+int64(c.Limit) {
				t.Errorf("%s: max %d", p.Limits[c.Limit].Name, c.Max)
			}
		}
	}
	if len(got) != 3 || got[0] != 6 || got[1] != 5 || got[2] != 3 {
		t.Errorf("got %v limits in\n%s", got, exported)
	}
	if want := time.Date(2198, 1, 1, 0, 0, 0, 0, time.UTC); !overrides[0].Until.Equal(want) || !overrides[2].Until.IsZero() {
		t.Errorf("the ends are %v", overrides)
	}
	if !strings.Contains(exported, "# left out: gone x=") {
		t.Error(exported)
	}
}

// TestExportDecidesLikeTheStore sets overrides at random that overlap, one for all keys of the other.
// A file with their export has the same numbers for each key, also after some of them have ended.
func TestExportDecidesLikeTheStore(t *testing.T) {
	const text = `version: 1
policies:
  p:
    keys: {ip: address}
    limits: {a: 5 per minute per ip per user, b: "7 per second per ip per user, burst 14"}
`
	ctx := context.Background()
	open := func(text string) *enforce.Set {
		t.Helper()
		file, err := policy.Parse("weir.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		s := &enforce.Set{Engine: weir.NewMemory()}
		s.OpenOverrides()
		must.Do(t, s.Reload(file, nil))
		return s
	}
	numbers := func(s *enforce.Set, ip, user string, at time.Time) (n [2]int64) {
		t.Helper()
		rule, err := s.Version().Rule("p")
		must.Do(t, err)
		target, err := rule.Target([]enforce.Pair{{Name: "ip", Value: ip}, {Name: "user", Value: user}})
		must.Do(t, err)
		o, err := rule.Decide(ctx, &enforce.Request{Target: target, Op: engine.Peek, N: 1, At: at})
		must.Do(t, err)
		for i := range n {
			n[i] = o.Limiter.Compiled().Limits[i].Max
		}
		return n
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	now := time.Now().UTC().Truncate(time.Second)
	ips := []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.1.1", "10.1.1.2", "2001:db8::/32", "2001:db8:1::/48", "2001:db8:1::1"}
	for range race.Fewer(40) {
		store := open(text)
		overrides := store.OpenOverrides()
		for range 12 {
			c := enforce.OverrideChange{
				StoredOverride: enforce.StoredOverride{
					Policy: "p", Limit: "ab"[r.IntN(2):][:1], Max: 10 + r.Int64N(1000), Reason: "r", Author: "a",
					Key: map[string]string{"ip": ips[r.IntN(len(ips))]},
				},
				Over:  engine.AnyVersion,
				Force: true,
			}
			if !strings.Contains(c.Key["ip"], "/") && r.IntN(2) == 0 {
				c.Key["user"] = fmt.Sprint("u", r.IntN(2))
			}
			if hours := r.IntN(3); hours > 0 {
				c.Until = now.Add(time.Duration(hours) * time.Hour)
			}
			_, _, err := overrides.Put(ctx, c)
			must.Do(t, err)
		}
		var all []httpapi.Override
		for _, x := range overrides.List("") {
			o := httpapi.Override{
				Policy: x.Policy, Key: x.Key, Limit: x.Limit, Sentence: x.Sentence, Reason: x.Reason, Author: x.Author,
				Source: "store", Version: strconv.FormatInt(x.Version, 10),
			}
			if !x.Until.IsZero() {
				o.Until = httpapi.Stamp(x.Until)
			}
			all = append(all, o)
		}
		exported := exportOverrides(all, policyList(t, `{"policies":[{"name":"p","addresses":{"ip":64}}]}`))
		_, items, _ := strings.Cut(exported, "  p:\n")
		file := open(text + items)
		for _, ip := range []string{"10.1.1.1", "10.1.1.2", "10.1.2.1", "10.2.0.1", "11.0.0.1", "2001:db8:1::5", "2001:db8:1:1::5", "2001:db8:2::5"} {
			for _, user := range []string{"u0", "u1", "u2"} {
				for _, at := range []time.Time{now, now.Add(90 * time.Minute), now.Add(3 * time.Hour)} {
					if got, want := numbers(file, ip, user, at), numbers(store, ip, user, at); got != want {
						t.Fatalf("seed %d: %s %s at %v: the file has %v, the store %v; %+v exported as\n%s", seed, ip, user, at, got, want, all, exported)
					}
				}
			}
		}
	}
}

// TestExportNamesCrossingItems: a file cannot join the items for a user and for a tenant, which the
// export says.
func TestExportNamesCrossingItems(t *testing.T) {
	all := []httpapi.Override{
		{Policy: "p", Key: map[string]string{"user": "ann"}, Limit: "a", Sentence: "9 per minute per user", Source: "store", Version: "1"},
		{Policy: "p", Key: map[string]string{"tenant": "acme"}, Limit: "b", Sentence: "9 per minute per tenant", Source: "store", Version: "2"},
	}
	exported := exportOverrides(all, new(httpapi.PolicyList))
	const note = "      # a key with the values of two items, one for tenant and one for user, has the numbers of the first alone\n"
	if !strings.Contains(exported, note) {
		t.Error(exported)
	}
	if exported = exportOverrides(all[:1], new(httpapi.PolicyList)); strings.Contains(exported, "#  ") || strings.Contains(exported, "two items") {
		t.Error(exported)
	}
}

// TestExportRepeatsNoItem: the end of an override for more keys needs no item of its own where
// another one applies.
func TestExportRepeatsNoItem(t *testing.T) {
	all := []httpapi.Override{
		{Policy: "p", Key: map[string]string{"ip": "192.0.2.1"}, Limit: "a", Sentence: "9 per minute per ip", Source: "store", Version: "1"},
		{Policy: "p", Key: map[string]string{"ip": "192.0.2.0/24"}, Limit: "a", Sentence: "8 per minute per ip", Source: "store", Version: "2", Until: "2199-01-01T00:00:00Z"},
	}
	exported := exportOverrides(all, policyList(t, `{"policies":[{"name":"p","addresses":{"ip":64}}]}`))
	if n := strings.Count(exported, "- for:"); n != 2 || strings.Index(exported, "192.0.2.1") > strings.Index(exported, "192.0.2.0/24") {
		t.Errorf("%d items, want that of the address and that of the network:\n%s", n, exported)
	}
}
