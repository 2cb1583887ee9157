package envoy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/weirlimit/weir/internal/keyenc"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir/internal/front/envoyconf"
)

// Bounds of the overrides and the plans that a domain caches. Requests choose them, so
// at the bound all are dropped and made anew. An override with longer keys is not cached.
const (
	mostCached      = 4096
	mostCachedBytes = 1 << 10 // of the numbers and keys of an override
)

// overrideNames bounds the names of histories of overrides, for each domain and length of
// a period. Two descriptors of one request are decided in one step if their names differ.
const overrideNames = 64

// override returns the limit of a descriptor that brings its own numbers. It stands
// in place of any rule. Its histories belong to the descriptor's keys and values and
// to the period, not to the number of requests: who is given more finds what was
// counted (R12), and a limit per second and one per minute are two.
func (s *Service) override(d *domain, w *work, o *common.RateLimitDescriptor_RateLimitOverride, entries []envoyconf.Entry) (*limit, error) {
	key := binary.AppendUvarint(w.text[:0], uint64(o.RequestsPerUnit))
	key = binary.AppendUvarint(key, uint64(o.Unit))
	key = binary.AppendUvarint(key, uint64(multiplier(o)))
	for i := range entries {
		key = keyenc.Append(key, entries[i].Key)
	}
	w.text = key
	if l := d.overrides.get(key); l != nil {
		return l, nil
	}
	l, err := s.newOverride(d, o, entries)
	if err == nil && len(key) <= mostCachedBytes {
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
func (s *Service) newOverride(d *domain, o *common.RateLimitDescriptor_RateLimitOverride, entries []envoyconf.Entry) (*limit, error) {
	r := &envoyconf.Rule{Path: "override", Requests: o.RequestsPerUnit, Unit: envoyconf.Unit(o.Unit), Multiplier: multiplier(o)}
	r.Window, _ = envoyconf.Period(r.Unit, max(r.Multiplier, 1))
	var keys []byte
	for i := range entries {
		keys = keyenc.Append(keys, entries[i].Key)
		r.Varying = append(r.Varying, i)
	}
	// Engines store the name and the longest period of each limit for ever. So periods of
	// about the same length share names, and the key holds the period and the keys.
	period := uint64(r.Window.Microseconds())
	sum := sha256.Sum256(keys)
	r.History = envoyconf.HistoryName(fmt.Sprintf("override %d %d", bits.Len64(period), sum[0]%overrideNames), nil, nil)
	l, err := s.newLimit(d, r, string(append(binary.AppendUvarint(nil, period), sum[:16]...)))
	if err == nil && d.overridden != nil {
		l.tally = d.overridden // there are as many overrides as requests care to name
	}
	return l, err
}
