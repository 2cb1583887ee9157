package envoy

import (
	"fmt"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
)

// override reads "10/MINUTE" or "10/MINUTE*5".
func override(t testing.TB, text string) *common.RateLimitDescriptor_RateLimitOverride {
	t.Helper()
	count, unit, _ := strings.Cut(text, "/")
	unit, times, many := strings.Cut(unit, "*")
	o := &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(numeral(t, count)),
		Unit: typev3.RateLimitUnit(typev3.RateLimitUnit_value[unit])}
	if many {
		o.UnitMultiplier = wrapperspb.UInt32(uint32(numeral(t, times)))
	}
	return o
}

// A request's own limit replaces that of the rule.
func TestOverrideReplacesTheRule(t *testing.T) {
	onEach(t, func(t *testing.T, c *clocked) {
		p := connect(t, c, examples(t)).in("edge_proxy_per_ip")
		p.wants("OK | OK 1/2 1m0s", "remote_address=1.1.1.1 limit:2/MINUTE")
		p.wants("OK | OK 0/2 1m0s", "remote_address=1.1.1.1 limit:2/MINUTE")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/2 1m0s", "remote_address=1.1.1.1 limit:2/MINUTE")
		// A higher override keeps the counted hits. Another value has another history.
		p.wants("OK | OK 0/3 1m0s", "remote_address=1.1.1.1 limit:3/MINUTE")
		p.wants("OK | OK 1/2 1m0s", "remote_address=2.2.2.2 limit:2/MINUTE")
		// The rule and other periods have histories of their own.
		p.wants("OK | OK 9/10 1s", "remote_address=1.1.1.1")
		p.wants("OK | OK 1/2 1s", "remote_address=1.1.1.1 limit:2/SECOND")
		// Several units; a minute of sixty seconds is a minute.
		p.wants("OK | OK 1/2 30s", "remote_address=1.1.1.1 limit:2/SECOND*30")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/3 1m0s", "remote_address=1.1.1.1 limit:3/SECOND*60")
		a := p.ask("remote_address=1.1.1.1 limit:2/SECOND*30")
		if l := a.Statuses[0].CurrentLimit; l.UnitMultiplier.GetValue() != 30 || l.Unit.String() != "SECOND" {
			t.Errorf("current_limit %v, want unit_multiplier 30", l)
		}
		// A value without a rule, a blocked one, a depth without a rule.
		p.wants("OK | OK 0/1 1h0m0s", "other=x limit:1/HOUR")
		p.wants("OK | OK 0/1 24h0m0s", "remote_address=50.0.0.5 limit:1/DAY")
		p.wants("OK | OK 0/1 720h0m0s", "a=1,b=2,c=3 limit:1/MONTH")
		p.wants("OK | OK 0/1 8760h0m0s", "a=1,b=2,c=3 limit:1/YEAR")
		// Two overrides with different periods in one request: both apply.
		p.wants("OK | OK 0/1 1s | OK 9/10 1m0s", "k=v limit:1/SECOND", "k=v limit:10/MINUTE")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/1 1s | OK 9/10 1m0s", "k=v limit:1/SECOND", "k=v limit:10/MINUTE")
		p.wants("OK | OK", "k=v")
		p.in("nobody").wants("OK | OK", "k=v limit:0/SECOND")
		p.wants("OVER_LIMIT | OVER_LIMIT 0/0 1s", "k=v limit:0/SECOND")
	})
}

// Engines store the names of limits for ever, so the keys and periods that requests
// choose add few names, and caches hold no long keys.
func TestOverridesAddFewNames(t *testing.T) {
	const most = 26 * overrideNames // there are 26 lengths of periods, in bits
	for _, w := range []Windows{Rolling, Fixed} {
		s := New(Options{Windows: w})
		d := &domain{name: "d", histories: "envoy.d", overridden: new(Hits)}
		names := map[string]bool{}
		for i := range 10_000 {
			o := override(t, fmt.Sprintf("1/SECOND*%d", 1+i*3000))
			l, err := s.override(d, &call{entries: []envoyconf.Entry{{Key: fmt.Sprint("k", i), Value: "v"}}}, o)
			if err != nil {
				t.Fatal(err)
			}
			names[l.enforced.Limits[0].Name] = true
		}
		if len(names) > most {
			t.Errorf("%v windows: %d names of limits, want %d at most", w, len(names), most)
		}
		d.overrides.all = nil
		if _, err := s.override(d, &call{entries: []envoyconf.Entry{{Key: strings.Repeat("k", maxCachedBytes)}}}, override(t, "1/HOUR")); err != nil || len(d.overrides.all) > 0 {
			t.Errorf("an override with a long key: %v, %d cached; want none", err, len(d.overrides.all))
		}
	}
}
