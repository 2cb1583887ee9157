package rls

import (
	"encoding/binary"
	"math/bits"
	"slices"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir/internal/envoy"
)

// mostCached bounds how many overrides, and how many plans, a domain remembers. They
// depend on what requests hold, so they are forgotten all at once and made anew.
const mostCached = 4096

// override returns the limit of a descriptor that brings its own numbers. It stands
// in place of any rule. Its histories belong to the descriptor's keys and values and
// to the period, not to the number of requests: who is given more finds what was
// counted (R12), and a limit per second and one per minute are two.
func (s *Service) override(d *domain, w *work, o *common.RateLimitDescriptor_RateLimitOverride, entries []envoy.Entry) (*limit, error) {
	key := binary.AppendUvarint(w.text[:0], uint64(o.RequestsPerUnit))
	key = binary.AppendUvarint(key, uint64(o.Unit))
	key = binary.AppendUvarint(key, uint64(multiplier(o)))
	for i := range entries {
		key = binary.AppendUvarint(key, uint64(len(entries[i].Key)))
		key = append(key, entries[i].Key...)
	}
	w.text = key
	if l := d.overrides.get(key); l != nil {
		return l, nil
	}
	l, err := s.newOverride(d, o, entries)
	if err == nil {
		d.overrides.put(key, l)
	}
	return l, err
}

// multiplier is how many units the period has; 0 stands for what is not said.
func multiplier(o *common.RateLimitDescriptor_RateLimitOverride) uint32 {
	if o.UnitMultiplier == nil {
		return 0
	}
	return o.UnitMultiplier.Value
}

// newOverride compiles an override whose numbers have been checked.
func (s *Service) newOverride(d *domain, o *common.RateLimitDescriptor_RateLimitOverride, entries []envoy.Entry) (*limit, error) {
	r := &envoy.Rule{Path: "override", Requests: o.RequestsPerUnit, Unit: envoy.Unit(o.Unit), Multiplier: multiplier(o)}
	r.Window, _ = envoy.Period(r.Unit, max(r.Multiplier, 1))
	keys := make([]string, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
		r.Varying = append(r.Varying, i)
	}
	// Engines remember each limit's longest period for ever, so the name tells periods
	// of about the same length, of which there are few, and the key the period itself.
	period := uint64(r.Window.Microseconds())
	r.History = envoy.HistoryName("override "+string(rune('a'+bits.Len64(period))), slices.Clone(keys), nil)
	l, err := s.newLimit(d, r, string(binary.AppendUvarint(nil, period)))
	if err == nil && d.overridden != nil {
		l.tally = d.overridden // there are as many overrides as requests care to name
	}
	return l, err
}
