package enforce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/policy"
)

// TestOverridesOfNetworksAsNaive: the override of a key is that of a comparison with each
// override in turn.
func TestOverridesOfNetworksAsNaive(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range race.Fewer(300) {
		p := &policy.Definition{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 1, Window: time.Minute, By: []string{"ip", "user"}}}, Addresses: map[string]int{"ip": 64}}
		for range 1 + r.IntN(12) {
			p.Overrides = append(p.Overrides, randomOverride(r))
		}
		rule, err := NewRule(p, weir.NewMemory())
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			a, user := randomAddress(r), fmt.Sprint("u", r.IntN(3))
			target, err := rule.Target([]Pair{{Name: "ip", Value: a.String()}, {Name: "user", Value: user}})
			if err != nil {
				t.Fatal(err)
			}
			at := time.UnixMicro(int64(r.IntN(3)))
			if got, want := rule.overrideOf(&target.Key, at), naiveOverride(p, a, user, at); got != want {
				t.Fatalf("seed %d, round %d: %s %s at %v: override %d, want %d of %+v", seed, round, a, user, at, got, want, p.Overrides)
			}
		}
	}
}

// randomAddress returns one of few addresses, so that overrides match often.
func randomAddress(r *rand.Rand) netip.Addr {
	few := func() byte { return byte(r.IntN(2)) }
	a := netip.AddrFrom4([4]byte{10, few(), few(), few()})
	switch r.IntN(3) {
	case 0:
		a = netip.AddrFrom16(a.As16()) // mapped into IPv6
	case 1:
		a = netip.AddrFrom16([16]byte{0x20, 1, few(), 0, few(), 0, 0, few(), 0, 0, 0, 0, 0, 0, 0, few()})
	}
	return a
}

func randomOverride(r *rand.Rand) policy.Override {
	o := policy.Override{Why: "x"}
	if r.IntN(3) > 0 {
		a := randomAddress(r)
		value := a.String()
		if r.IntN(3) > 0 {
			a = a.Unmap()
			value = netip.PrefixFrom(a, r.IntN(min(a.BitLen(), 64)+1)).Masked().String()
		}
		o.For = append(o.For, policy.Dimension{Name: "ip", Value: value})
	}
	if o.For == nil || r.IntN(2) == 0 {
		o.For = append(o.For, policy.Dimension{Name: "user", Value: fmt.Sprint("u", r.IntN(3))})
	}
	if r.IntN(3) == 0 {
		o.Until = time.UnixMicro(int64(r.IntN(3)))
	}
	return o
}

// naiveOverride compares a key with each override. It shares no code with the index.
func naiveOverride(p *policy.Definition, a netip.Addr, user string, at time.Time) int {
	best, longest := -1, -2
	for i := range p.Overrides {
		o := &p.Overrides[i]
		length, matches := -1, o.Until.IsZero() || at.Before(o.Until)
		for _, d := range o.For {
			if d.Name == "user" {
				matches = matches && d.Value == user
				continue
			}
			n, err := netip.ParsePrefix(d.Value)
			if err != nil {
				one := netip.MustParseAddr(d.Value).Unmap()
				n = netip.PrefixFrom(one, min(one.BitLen(), 64)).Masked()
			}
			length = n.Bits()
			matches = matches && n.Contains(a.Unmap())
		}
		if matches && length > longest {
			best, longest = i, length
		}
	}
	return best
}

// TestValueThatIsNoAddress: it is bad input, and the message names the dimension and not the
// value.
func TestValueThatIsNoAddress(t *testing.T) {
	r := ruleIn(t, "addresses.yaml", "site", weir.NewMemory())
	const next = `, and policy "site" counts by addresses; send `
	for value, words := range map[string]string{
		"office":                  next + "one such as 192.0.2.7 or 2001:db8::1",
		strings.Repeat("1", 1000): next + "one such as 192.0.2.7 or 2001:db8::1",
		"10.0.0.0/8":              " but a network of several clients" + next + "the address of one of them",
		"2001:db8::/32":           " but a network of several clients" + next + "the address of one of them",
		"198.51.100.7, 10.0.0.1":  " but a list of addresses" + next + "the last one, if your own proxy wrote it",
		"unknown,10.0.0.1:80":     " but a list of addresses" + next + "the last one",
		" 198.51.100.7":           " because of the space around it" + next + "it without space",
		"198.051.100.007":         " because of leading zeros, which some programs read as octal" + next + "it without them",
		"198.51.100.000":          " because of leading zeros",
		"unix:":                   " but a Unix socket" + next + "the address of the client",
	} {
		_, err := r.Target([]Pair{{Name: "ip", Value: value}})
		if !errors.Is(err, &weir.InputError{Field: "key"}) || strings.Contains(err.Error(), value) ||
			!strings.Contains(err.Error(), `the value of "ip" is not an address`+words) {
			t.Errorf("%.40q: %v, want %q", value, err, words)
		}
		target, err := r.TargetAsWritten([]Pair{{Name: "ip", Value: value}})
		if err != nil || target.Key.Value(0) != value {
			t.Errorf("%.40q: as written %+v, %v", value, target, err)
		}
	}
}

// TestTargetAllocatesAsNeeded: a key without keys: has the allocations it had, and so has an
// address in its counted form. Another form takes one.
func TestTargetAllocatesAsNeeded(t *testing.T) {
	if race.Enabled {
		return // the race detector allocates
	}
	plain, site := ruleIn(t, "policies.yaml", "shadow", weir.NewMemory()), ruleIn(t, "addresses.yaml", "site", weir.NewMemory())
	for _, c := range []struct {
		rule        *Rule
		name, value string
		want        float64
	}{
		{plain, "user", "2001:db8::1", 0},
		{site, "ip", "10.1.2.3", 0},
		{site, "ip", "2001:db8::/64", 0},
		{site, "ip", "2001:db8::1", 1},
	} {
		values := []Pair{{Name: c.name, Value: c.value}}
		got := testing.AllocsPerRun(100, func() {
			target, err := c.rule.Target(values)
			if err != nil {
				t.Fatal(err)
			}
			c.rule.choose(&target.Key, target.Plan, start)
		})
		if got != c.want {
			t.Errorf("%s=%s: %v allocations, want %v", c.name, c.value, got, c.want)
		}
	}
}

func BenchmarkTarget(b *testing.B) {
	for _, c := range []struct{ file, policy, key string }{
		{"policies.yaml", "shadow", "user=ann"},
		{"policies.yaml", "api", "tenant=acme user=ann"},
		{"addresses.yaml", "wide", "ip=192.0.2.7"},
		{"addresses.yaml", "wide", "ip=2001:db8::1"},
		{"addresses.yaml", "site", "ip=10.9.9.9"},
		{"addresses.yaml", "site", "ip=2001:db8::1"},
	} {
		b.Run(c.policy+" "+c.key, func(b *testing.B) {
			r := ruleIn(b, c.file, c.policy, weir.NewMemory())
			var values []Pair
			for _, w := range strings.Fields(c.key) {
				name, value, _ := strings.Cut(w, "=")
				values = append(values, Pair{Name: name, Value: value})
			}
			b.ReportAllocs()
			for b.Loop() {
				t, _ := r.Target(values)
				r.choose(&t.Key, t.Plan, start)
			}
		})
	}
}
