package enforce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/policy"
)

// storedSetOf returns a Set of a policy with the limits a and b, and the overrides of its store.
func storedSetOf(t testing.TB, e engine.Engine) (*Set, *Overrides) {
	t.Helper()
	by := []string{"ip", "user"}
	p := &policy.Definition{
		Name: "p",
		Limits: []weir.Limit{
			{Name: "a", Max: 1000, Window: time.Minute, By: by},
			{Name: "b", Max: 1000, Window: time.Hour, By: by},
		},
		Addresses: map[string]int{"ip": 64},
		Overrides: []policy.Override{{
			For:     []policy.Dimension{{Name: "user", Value: "u0"}},
			Changes: []policy.Change{{Limit: 0, Max: 1}, {Limit: 1, Max: 2}},
			Why:     "file",
		}},
	}
	s := &Set{Engine: e}
	o := s.OpenOverrides()
	must.Do(t, s.Reload(&policy.File{Policies: []*policy.Definition{p}}, nil))
	return s, o
}

// TestStoredOverridesAsNaive changes overrides of the store at random on one of two processes, and
// compares the numbers of keys on the other with a search through all overrides.
func TestStoredOverridesAsNaive(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range race.Fewer(30) {
		e := weir.NewMemory()
		_, here := storedSetOf(t, e)
		other, there := storedSetOf(t, e)
		for range 100 {
			changeAtRandom(t, r, here)
			if r.IntN(3) > 0 {
				continue
			}
			must.Do(t, there.Poll(context.Background()))
			rule, _ := other.Version().Rule("p")
			a, user := randomAddress(r), fmt.Sprint("u", r.IntN(3))
			target, err := rule.Target([]Pair{{Name: "ip", Value: a.String()}, {Name: "user", Value: user}})
			must.Do(t, err)
			v := rule.choose(&target.Key, 0, time.Time{})
			got := [2]int64{v.Limits[0].Max, v.Limits[1].Max}
			if want := naiveNumbers(there.List(""), a, user); got != want {
				t.Fatalf("seed %d, round %d: %s %s: got %v, want %v of %+v", seed, round, a, user, got, want, there.List(""))
			}
		}
	}
}

// changeAtRandom sets or deletes an override for few keys.
func changeAtRandom(t *testing.T, r *rand.Rand, o *Overrides) {
	t.Helper()
	from := randomOverride(r)
	c := OverrideChange{
		StoredOverride: StoredOverride{
			Policy: "p", Key: map[string]string{}, Limit: []string{"a", "b"}[r.IntN(2)],
			Max: 3 + r.Int64N(1000), Reason: "r", Author: "a",
		},
		Over:  engine.AnyVersion,
		Force: true,
	}
	for _, d := range from.For {
		c.Key[d.Name] = d.Value
	}
	if r.IntN(4) == 0 {
		if _, err := o.Delete(context.Background(), c); err != nil && !errors.Is(err, ErrNoOverride) {
			t.Fatal(err)
		}
		return
	}
	if _, _, err := o.Put(context.Background(), c); err != nil {
		t.Fatal(err)
	}
}

// naiveNumbers returns the numbers of the limits a and b. It shares no code with the index.
func naiveNumbers(all []ListedOverride, a netip.Addr, user string) (numbers [2]int64) {
	numbers = [2]int64{1000, 1000}
	if user == "u0" {
		numbers = [2]int64{1, 2}
	}
	for i, limit := range []string{"a", "b"} {
		var best *ListedOverride
		bits := func(o *ListedOverride) int {
			text, ok := o.Key["ip"]
			if !ok {
				return -1
			}
			if n, err := netip.ParsePrefix(text); err == nil {
				return n.Bits()
			}
			return 128
		}
		for j := range all {
			o := &all[j]
			matches := o.Limit == limit && (o.Key["user"] == "" || o.Key["user"] == user)
			if text, ok := o.Key["ip"]; ok {
				n, err := netip.ParsePrefix(text)
				if err != nil {
					one := netip.MustParseAddr(text).Unmap()
					n = netip.PrefixFrom(one, one.BitLen())
				}
				matches = matches && n.Contains(a.Unmap())
			}
			if !matches {
				continue
			}
			wins := best == nil || bits(o) > bits(best)
			if best != nil && bits(o) == bits(best) {
				wins = len(o.Key) > len(best.Key) || len(o.Key) == len(best.Key) && o.Version > best.Version
			}
			if wins {
				best = o
			}
		}
		if best != nil {
			numbers[i] = best.Max
		}
	}
	return numbers
}

// TestChangeKeepsOtherLimiters: a change compiles no limiter that exists, and a decision under an
// override allocates nothing.
func TestChangeKeepsOtherLimiters(t *testing.T) {
	s, o := storedSetOf(t, weir.NewMemory())
	put := func(user string, n int64) {
		t.Helper()
		_, _, err := o.Put(context.Background(), OverrideChange{
			StoredOverride: StoredOverride{Policy: "p", Key: map[string]string{"user": user}, Limit: "a", Max: n, Reason: "r", Author: "a"},
			Over:           engine.AnyVersion,
		})
		must.Do(t, err)
	}
	put("ann", 2000)
	rule, _ := s.Version().Rule("p")
	key := engine.K("192.0.2.7", "ann")
	before := rule.choose(&key, 0, time.Time{})
	put("bob", 3000)
	if after := rule.choose(&key, 0, time.Time{}); after != before {
		t.Error("the limiter of ann was compiled again")
	}
	put("ann", 4000)
	if after := rule.choose(&key, 0, time.Time{}); after == before || after.Limits[0].Max != 4000 {
		t.Errorf("after the change of ann: %+v", after.Limits)
	}
	for _, values := range []map[string]string{
		{"user": "cat"}, {"user": "a customer with a long name", "ip": "192.0.2.0/24"}, {"user": "a customer with a long name", "ip": "192.0.2.7"},
	} {
		_, _, err := o.Put(context.Background(), OverrideChange{
			StoredOverride: StoredOverride{Policy: "p", Key: values, Limit: "b", Max: 5000, Reason: "r", Author: "a"},
			Over:           engine.AnyVersion,
		})
		must.Do(t, err)
	}
	for _, user := range []string{"ann", "nobody", "a customer with a long name"} {
		key := engine.K("192.0.2.7", user)
		if n := testing.AllocsPerRun(100, func() { rule.choose(&key, 0, time.Time{}) }); n > 0 {
			t.Errorf("%s: the choice allocates %v times", user, n)
		}
	}
}

// TestBurstFollowsMax: the capacity of a bucket changes in the ratio of its number.
func TestBurstFollowsMax(t *testing.T) {
	for _, c := range []struct{ max, burst, n, want int64 }{
		{10, 20, 100, 200}, {10, 20, 5, 10}, {10, 25, 1, 3}, {10, 1, 1, 1}, {10, 20, 0, 1},
		{1, 5, weir.MaxUnits, weir.MaxUnits}, {weir.MaxUnits, weir.MaxUnits, weir.MaxUnits, weir.MaxUnits},
		{3, weir.MaxUnits, weir.MaxUnits, weir.MaxUnits},
	} {
		l := weir.Limit{Max: c.max, Burst: c.burst}
		setMax(&l, c.n)
		if l.Max != c.n || l.Burst != c.want {
			t.Errorf("%d, burst %d with %d: got burst %d, want %d", c.max, c.burst, c.n, l.Burst, c.want)
		}
	}
}

// TestTooManyOverrides: the store keeps 100,000, and a further one is rejected with the next step. A
// change of one of them is made.
func TestTooManyOverrides(t *testing.T) {
	e := weir.NewMemory()
	_, o := storedSetOf(t, e)
	for n := range engine.MaxDocuments {
		own := StoredOverride{Policy: "p", Key: map[string]string{"user": fmt.Sprint(n)}, Limit: "a", Max: 2000, Reason: "r", Author: "a"}
		text, _ := json.Marshal(own)
		_, err := e.Documents().Write(context.Background(), overridesCollection, engine.Document{Name: own.name(), Text: string(text)})
		must.Do(t, err)
	}
	began := time.Now()
	must.Do(t, o.Poll(context.Background()))
	t.Logf("%d overrides were read in %v", engine.MaxDocuments, time.Since(began))
	c := OverrideChange{
		StoredOverride: StoredOverride{Policy: "p", Key: map[string]string{"user": "new"}, Limit: "a", Max: 3000, Reason: "r", Author: "a"},
		Over:           engine.AnyVersion,
	}
	const want = "weir: bad request: the store has 100000 overrides, the most that it keeps; delete some that are not needed"
	if _, _, err := o.Put(context.Background(), c); err == nil || err.Error() != want {
		t.Errorf("one more: %v", err)
	}
	c.Key = map[string]string{"user": "7"}
	if _, before, err := o.Put(context.Background(), c); err != nil || before.Max != 2000 {
		t.Errorf("a change: %v, before %+v", err, before)
	}
}

// TestOverrideOfCountedDenials: under denied: counted a history fits one number only, so no override
// of the store applies, as none of the file does.
func TestOverrideOfCountedDenials(t *testing.T) {
	s := &Set{Engine: weir.NewMemory()}
	o := s.OpenOverrides()
	p := &policy.Definition{Name: "p", Limits: []weir.Limit{{Name: "a", Max: 10, Window: time.Minute, By: []string{"user"}}}}
	reload := func(mode weir.Mode) {
		t.Helper()
		next := *p
		next.Mode = mode
		must.Do(t, s.Reload(&policy.File{Policies: []*policy.Definition{&next}}, nil))
	}
	c := OverrideChange{
		StoredOverride: StoredOverride{Policy: "p", Key: map[string]string{"user": "ann"}, Max: 20, Reason: "r", Author: "a"},
		Over:           engine.AnyVersion,
	}
	reload(weir.CountDenied)
	const want = `weir: bad request: policy "p" counts denied attempts, and its histories fit one number only; ` +
		`change it in the policy file, or write denied: free`
	if _, _, err := o.Put(context.Background(), c); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	reload(weir.AllOrNothing)
	_, _, err := o.Put(context.Background(), c)
	must.Do(t, err)
	reload(weir.CountDenied)
	rule, _ := s.Version().Rule("p")
	key := engine.K("ann")
	if got := rule.choose(&key, 0, time.Time{}).Limits[0].Max; got != 10 {
		t.Errorf("after a reload: max %d, want that of the file", got)
	}
	if all := o.List("p"); len(all) != 1 || all[0].Problem == "" {
		t.Errorf("after a reload: %+v, want the reason why it does not apply", all)
	}
}

// TestEndedOverride: one that has ended is not listed, and stays in the store for an hour, because the
// clock of this process may be ahead. It is none for a change that must not replace another one.
func TestEndedOverride(t *testing.T) {
	e := weir.NewMemory()
	_, o := storedSetOf(t, e)
	stored := func(user string, ended time.Duration) OverrideChange {
		t.Helper()
		c := OverrideChange{StoredOverride: StoredOverride{
			Policy: "p", Key: map[string]string{"user": user}, Limit: "a", Max: 2000, Reason: "r", Author: "a",
			Until: time.Now().Add(-ended),
		}}
		text, _ := json.Marshal(c.StoredOverride)
		_, err := e.Documents().Write(context.Background(), overridesCollection, engine.Document{Name: c.name(), Text: string(text)})
		must.Do(t, err)
		return c
	}
	recent := stored("ann", 10*time.Minute)
	stored("bob", 2*time.Hour)
	must.Do(t, o.Poll(context.Background()))
	o.sweep(context.Background())
	left, err := e.Documents().Read(context.Background(), overridesCollection, 0)
	must.Do(t, err)
	if len(left.Documents) != 1 || left.Documents[0].Name != recent.name() {
		t.Errorf("after the sweep: %+v, want that of ann", left.Documents)
	}
	if all := o.List(""); len(all) != 0 {
		t.Errorf("listed: %+v", all)
	}
	if _, err := o.Delete(context.Background(), recent); !errors.Is(err, ErrNoOverride) {
		t.Errorf("the deletion of an ended override: got %v, want ErrNoOverride", err)
	}
	recent.Until = time.Time{}
	if _, _, err := o.Put(context.Background(), recent); err != nil {
		t.Errorf("a new override in place of the ended one: %v", err)
	}
	if _, _, err := o.Put(context.Background(), recent); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("one that must not be there: got %v, want ErrConflict", err)
	}
}

// stuck is an engine whose store does not answer before the caller's context ends.
type stuck struct{ *weir.Memory }

func (s stuck) Documents() engine.Documents { return stuckDocuments{s.Memory.Documents()} }

type stuckDocuments struct{ engine.Documents }

func (stuckDocuments) Read(ctx context.Context, _ string, _ int64) (engine.Changes, error) {
	<-ctx.Done()
	return engine.Changes{}, engine.ErrUnavailable
}

// TestChangesDoNotQueue: while the store does not answer, each change ends by its own deadline, also
// if others were there before.
func TestChangesDoNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := storedSetOf(t, stuck{weir.NewMemory()})
		began := time.Now()
		for range 20 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				c := OverrideChange{StoredOverride: StoredOverride{
					Policy: "p", Key: map[string]string{"user": "ann"}, Limit: "a", Max: 2000, Reason: "r", Author: "a",
				}}
				if _, _, err := o.Put(ctx, c); !errors.Is(err, engine.ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable", err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("a change waited for %v, with a deadline of 1s", took)
				}
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}

// broken is an engine whose store is away. Each error has another text.
type broken struct {
	engine.Engine
	reads int
}

func (f *broken) Documents() engine.Documents { return f }

func (f *broken) Read(context.Context, string, int64) (engine.Changes, error) {
	f.reads++
	if f.reads > 1000 {
		return engine.Changes{}, nil
	}
	return engine.Changes{}, fmt.Errorf("read tcp 127.0.0.1:%d: connection reset", f.reads)
}

func (f *broken) Write(_ context.Context, _ string, d engine.Document) (engine.Document, error) {
	return d, nil
}

// TestWatchReportsAnOutage: an outage of minutes has a report a minute, whatever its errors are, and
// one at its end.
func TestWatchReportsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Set{Engine: &broken{Engine: weir.NewMemory()}}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		var failed []error
		s.OpenOverrides().Watch(ctx, func(err error) { failed = append(failed, err) }, func(int) {})
		// 1000 polls take 250 s.
		if len(failed) != 6 || failed[0] == nil || failed[5] != nil {
			t.Errorf("got %d reports: %v; want 5 of errors and 1 of the end", len(failed), failed)
		}
	})
}

// TestLowerNeedsForce: an override that may give a key less than the policy file, with its plans and
// overrides, needs force.
func TestLowerNeedsForce(t *testing.T) {
	file, err := policy.Parse("weir.yaml", []byte(`version: 1
policies:
  p:
    limits: {a: 10 per minute per ip per tenant, b: 100 per hour per plan}
    keys: {ip: address}
    plan-by: plan
    plans: {pro: {a: 1000 per minute}}
    overrides:
      - {for: {tenant: acme}, limits: {a: 50 per minute}, until: forever, why: w}
      - {for: {ip: 192.0.2.0/24}, limits: {a: 70 per minute}, until: forever, why: w}
      - {for: {tenant: big}, plan: pro, until: forever, why: w}
      - {for: {tenant: old}, limits: {a: 5000 per minute}, until: 2000-01-01, why: it is over}
`))
	must.Do(t, err)
	s := &Set{Engine: weir.NewMemory()}
	o := s.OpenOverrides()
	must.Do(t, s.Reload(file, nil))
	const network, big = "the override for ip=192.0.2.0/24 in the policy file", "the override for tenant=big in the policy file"
	const pro, rest = `plan "pro" in the policy file`, "the policy file"
	for _, c := range []struct {
		key   map[string]string
		least int64
		of    string
	}{
		{map[string]string{"tenant": "t"}, 1000, pro}, // it may have the plan
		{map[string]string{"tenant": "t", "plan": "pro"}, 1000, pro},
		{map[string]string{"tenant": "t", "plan": "free"}, 70, network}, // for some of its addresses
		{map[string]string{"tenant": "t", "plan": "free", "ip": "10.0.0.1"}, 10, rest},
		{map[string]string{"tenant": "acme"}, 70, network},
		{map[string]string{"tenant": "acme", "ip": "10.0.0.1"}, 50, rest},
		{map[string]string{"tenant": "acme", "ip": "192.0.2.1"}, 70, rest},
		{map[string]string{"tenant": "old", "ip": "10.0.0.1", "plan": "free"}, 10, rest},
		{map[string]string{"ip": "192.0.2.0/25"}, 70, rest},
		{map[string]string{"ip": "192.0.2.0/23", "plan": "free"}, 1000, big},
		{map[string]string{"ip": "192.0.2.0/23", "plan": "free", "tenant": "t"}, 70, network},
		{map[string]string{"ip": "192.0.4.0/23", "plan": "free", "tenant": "acme"}, 50, rest},
		{map[string]string{"tenant": "big", "plan": "free"}, 1000, pro},
	} {
		change := OverrideChange{
			StoredOverride: StoredOverride{Policy: "p", Key: c.key, Limit: "a", Max: c.least - 1, Reason: "r", Author: "a"},
			Over:           engine.AnyVersion,
		}
		want := fmt.Sprintf("below the %d of %s; ", c.least, c.of)
		if _, _, err := o.Put(context.Background(), change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v with %d: got %v, want %q", c.key, change.Max, err, want)
		}
		change.Max++
		if _, _, err := o.Put(context.Background(), change); err != nil {
			t.Errorf("%v with %d: %v", c.key, change.Max, err)
		}
	}
}

// TestNothingIsLoweredWithoutForce sets overrides at random without force. None of them gives any key
// less than the policy file does.
func TestNothingIsLoweredWithoutForce(t *testing.T) {
	file, err := policy.Parse("weir.yaml", []byte(`version: 1
policies:
  p:
    limits: {a: 10 per minute per ip per user, b: 20 per hour per user}
    keys: {ip: address}
    plan-by: plan
    plans: {pro: {a: 40 per minute}}
    overrides:
      - {for: {ip: "2001:db8:1::/48"}, limits: {a: 30 per minute}, until: forever, why: w}
      - {for: {user: u1, ip: 10.0.0.0/8}, limits: {a: 60 per minute, b: 30 per hour}, until: forever, why: w}
      - {for: {ip: 10.1.0.0/16}, limits: {a: 50 per minute}, until: forever, why: w}
      - {for: {user: u2}, plan: pro, until: forever, why: w}
      - {for: {user: u2, ip: 10.1.1.1}, limits: {a: 1 per minute, b: 70 per hour}, until: forever, why: w}
`))
	must.Do(t, err)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	set, kept := 0, 0
	for range race.Fewer(300) {
		s := &Set{Engine: weir.NewMemory()}
		o := s.OpenOverrides()
		must.Do(t, s.Reload(file, nil))
		rule, _ := s.Version().Rule("p")
		type numbers struct{ before, after int64 }
		of := map[string]*numbers{}
		read := func(limit int, set func(*numbers, int64)) {
			for _, a := range []string{"10.1.1.1", "10.1.2.2", "10.2.0.1", "11.0.0.1", "2001:db8:1::1", "2001:db8:2::1"} {
				for _, user := range []string{"u0", "u1", "u2"} {
					for plan := range 2 {
						target, err := rule.Target([]Pair{{Name: "ip", Value: a}, {Name: "user", Value: user}})
						must.Do(t, err)
						id := fmt.Sprint(a, " ", user, " ", plan)
						if of[id] == nil {
							of[id] = new(numbers)
						}
						set(of[id], rule.choose(&target.Key, plan, time.Time{}).Limits[limit].Max)
					}
				}
			}
		}
		limit := r.IntN(2)
		c := OverrideChange{StoredOverride: StoredOverride{
			Policy: "p", Limit: "ab"[limit : limit+1], Max: 1 + r.Int64N(80), Reason: "r", Author: "a", Key: map[string]string{},
		}}
		if r.IntN(2) == 0 {
			c.Key["user"] = fmt.Sprint("u", r.IntN(3))
		}
		networks := []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.1.0/24", "10.1.1.1", "2001:db8::/32", "2001:db8:1::/48", "0.0.0.0/0"}
		if len(c.Key) == 0 || r.IntN(2) == 0 {
			c.Key["ip"] = networks[r.IntN(len(networks))]
		}
		read(limit, func(n *numbers, most int64) { n.before = most })
		if _, _, err := o.Put(context.Background(), c); err != nil {
			kept++
			continue
		}
		set++
		read(limit, func(n *numbers, most int64) { n.after = most })
		for id, n := range of {
			if n.after < n.before {
				t.Fatalf("seed %d: %v with %d lowers limit %s of %s from %d to %d", seed, c.Key, c.Max, c.Limit, id, n.before, n.after)
			}
		}
	}
	if set == 0 || kept == 0 {
		t.Errorf("%d overrides were set and %d rejected", set, kept)
	}
}

// far is an engine whose store takes seconds to return all documents.
type far struct{ *weir.Memory }

func (f far) Documents() engine.Documents { return farDocuments{f.Memory.Documents()} }

type farDocuments struct{ engine.Documents }

func (d farDocuments) Read(
	ctx context.Context, collection string, since int64,
) (engine.Changes, error) {
	if since == 0 {
		select {
		case <-time.After(9 * time.Second):
		case <-ctx.Done():
			return engine.Changes{}, ctx.Err()
		}
	}
	return d.Documents.Read(ctx, collection, since)
}

// TestWatchWaitsForAStoreFarAway: overrides that cannot be read in the usual time come into force all
// the same.
func TestWatchWaitsForAStoreFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := far{weir.NewMemory()}
		s, o := storedSetOf(t, e)
		own := StoredOverride{Policy: "p", Key: map[string]string{"user": "ann"}, Limit: "a", Max: 2000, Reason: "r", Author: "a"}
		text, _ := json.Marshal(own)
		_, err := e.Memory.Documents().Write(context.Background(), overridesCollection, engine.Document{Name: own.name(), Text: string(text)})
		must.Do(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		o.Watch(ctx, func(error) {}, func(int) {})
		rule, _ := s.Version().Rule("p")
		key := engine.K("192.0.2.7", "ann")
		if got := rule.choose(&key, 0, time.Time{}).Limits[0].Max; got != 2000 {
			t.Errorf("after a minute: max %d, want 2000", got)
		}
	})
}

// forgetful is an engine whose store loses all that it has when another one is set.
type forgetful struct {
	*weir.Memory
	now atomic.Pointer[weir.Memory]
}

func (f *forgetful) Documents() engine.Documents { return f }

func (f *forgetful) Read(
	ctx context.Context, collection string, since int64,
) (engine.Changes, error) {
	return f.now.Load().Documents().Read(ctx, collection, since)
}

func (f *forgetful) Write(
	ctx context.Context, collection string, d engine.Document,
) (engine.Document, error) {
	return f.now.Load().Documents().Write(ctx, collection, d)
}

// TestLostOverridesAreReported: overrides end with a store that has lost them, such as a Redis that
// was emptied, and that is reported once. A deletion is no loss.
func TestLostOverridesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &forgetful{Memory: weir.NewMemory()}
		e.now.Store(weir.NewMemory())
		_, o := storedSetOf(t, e)
		put := func(user string) OverrideChange {
			t.Helper()
			c := OverrideChange{
				StoredOverride: StoredOverride{Policy: "p", Key: map[string]string{"user": user}, Limit: "a", Max: 2000, Reason: "r", Author: "a"},
				Over:           engine.AnyVersion,
			}
			_, _, err := o.Put(context.Background(), c)
			must.Do(t, err)
			return c
		}
		var lost []int
		ctx, cancel := context.WithCancel(context.Background())
		go o.Watch(ctx, func(error) {}, func(n int) { lost = append(lost, n) })
		put("ann")
		put("bob")
		_, err := o.Delete(context.Background(), put("cid"))
		must.Do(t, err)
		time.Sleep(time.Second)
		e.now.Store(weir.NewMemory())
		time.Sleep(time.Second)
		put("dan")
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		if len(lost) != 1 || lost[0] != 2 || len(o.List("")) != 1 {
			t.Errorf("lost %v, listed %+v; want 2 lost at once, and that of dan", lost, o.List(""))
		}
	})
}

// TestBurstOfTheFileMayNotFit: the capacity that an override of the file gives a bucket may be too
// large for the rate of one of the store. That of the plan applies then, and the rate all the same.
func TestBurstOfTheFileMayNotFit(t *testing.T) {
	file, err := policy.Parse("weir.yaml", []byte(`version: 1
policies:
  p:
    limits: {a: "3 per 3d per tenant, burst 4", b: 10 per minute per tenant}
    overrides:
      - {for: {tenant: acme}, limits: {a: "3 per 3d, burst 400", b: 20 per minute}, until: forever, why: w}
`))
	must.Do(t, err)
	s := &Set{Engine: weir.NewMemory()}
	o := s.OpenOverrides()
	must.Do(t, s.Reload(file, nil))
	_, _, err = o.Put(context.Background(), OverrideChange{
		StoredOverride: StoredOverride{Policy: "p", Key: map[string]string{"tenant": "acme"}, Limit: "a", Max: 2, Reason: "r", Author: "a"},
		Over:           engine.AnyVersion,
		Force:          true,
	})
	must.Do(t, err)
	rule, _ := s.Version().Rule("p")
	key := engine.K("acme")
	v := rule.choose(&key, 0, time.Time{})
	if a, b := v.Limits[0], v.Limits[1]; a.Max != 2 || a.Burst != 3 || b.Max != 20 {
		t.Errorf("the limits are %+v and %+v, want 2 with burst 3, and 20", a, b)
	}
}
