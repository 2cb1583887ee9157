package envoy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/keyenc"
)

// Bounds of the overrides that a domain caches. Requests choose them, so a full cache is
// cleared. An override with longer keys is not cached.
const (
	maxCached      = 4096
	maxCachedBytes = 1 << 10 // of the numbers and keys of an override
)

// overrides are the limits of overrides, by their numbers and keys.
type overrides struct {
	mu  sync.Mutex // protects all
	all map[string]*limit
}

// overrideNames bounds the names of histories of overrides, for each domain and length of
// a period. Two descriptors of one request are decided in one step if their names differ.
const overrideNames = 64

// checkOverride validates a limit of the request's own.
func checkOverride(o *common.RateLimitDescriptor_RateLimitOverride) error {
	if o == nil {
		return nil
	}
	unit := envoyconf.Unit(o.Unit)
	if o.Unit <= 0 || int32(o.Unit) > int32(envoyconf.Year) {
		return badInput("limit.unit: %d is not a unit; use SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", o.Unit)
	}
	n := uint32(1)
	if o.UnitMultiplier != nil {
		n = o.UnitMultiplier.Value
	}
	if _, problem := envoyconf.Period(unit, n); problem != "" {
		return badInput("limit.unit_multiplier: %s", problem)
	}
	return nil
}

// override returns the limit of a descriptor with numbers of its own, which replaces any
// rule. Its histories belong to the keys and values of c.entries and to the period, but
// not to the number of requests: after a change of the number the hits still count
// (R12), while a limit per second and one per minute are separate.
func (s *Service) override(d *domain, c *call, o *common.RateLimitDescriptor_RateLimitOverride) (*limit, error) {
	key := binary.AppendUvarint(c.text[:0], uint64(o.RequestsPerUnit))
	key = binary.AppendUvarint(key, uint64(o.Unit))
	key = binary.AppendUvarint(key, uint64(o.UnitMultiplier.GetValue()))
	key = appendKeys(key, c.entries)
	c.text = key
	cached := &d.overrides
	cached.mu.Lock()
	defer cached.mu.Unlock()
	if l := cached.all[string(key)]; l != nil {
		return l, nil
	}
	l, err := s.newOverride(d, o, c.entries)
	if err == nil && len(key) <= maxCachedBytes {
		if cached.all == nil || len(cached.all) == maxCached {
			cached.all = map[string]*limit{}
		}
		cached.all[string(key)] = l
	}
	return l, err
}

// appendKeys appends the keys of entries.
func appendKeys(b []byte, entries []envoyconf.Entry) []byte {
	for i := range entries {
		b = keyenc.Append(b, entries[i].Key)
	}
	return b
}

// newOverride compiles a valid override.
func (s *Service) newOverride(d *domain, o *common.RateLimitDescriptor_RateLimitOverride, entries []envoyconf.Entry) (*limit, error) {
	r := &envoyconf.Rule{Path: "override", Requests: o.RequestsPerUnit, Unit: envoyconf.Unit(o.Unit), Multiplier: o.UnitMultiplier.GetValue()}
	r.Window, _ = envoyconf.Period(r.Unit, max(r.Multiplier, 1))
	for i := range entries {
		r.Varying = append(r.Varying, i)
	}
	// Engines store the name and the longest period of each limit for ever. So periods of
	// about the same length share names, and the key holds the period and the keys.
	period := uint64(r.Window.Microseconds())
	sum := sha256.Sum256(appendKeys(nil, entries))
	r.History = envoyconf.HistoryName(fmt.Sprintf("override %d %d", bits.Len64(period), sum[0]%overrideNames), nil, nil)
	l, err := s.newLimit(d, r, string(append(binary.AppendUvarint(nil, period), sum[:16]...)))
	if err == nil && d.overridden != nil {
		l.tally = d.overridden // one tally: requests could choose any number of overrides
	}
	return l, err
}
