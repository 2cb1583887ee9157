package envoy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// limit is a compiled rule, or a compiled override of a request. It never changes.
type limit struct {
	rule     *envoyconf.Rule // an override has a rule with only numbers
	enforced *enforce.Rule   // with this limit alone; nil if it is unlimited
	shown    *shownLimit
	windows  Windows
	salt     string // prefix of each key; of an override, its period and a hash of its keys
	tally    *Hits
	names    []string        // of the values of a key in top
	top      *topkeys.Sketch // the keys that are denied most; nil if none are kept, and for an override
}

// newLimit compiles a rule of the domain.
func (s *Service) newLimit(d *domain, r *envoyconf.Rule, salt string) (*limit, error) {
	l := &limit{rule: r, windows: s.options.Windows, salt: salt, tally: new(Hits)}
	if r.Unlimited {
		return l, nil
	}
	l.shown = newShownLimit(r.Name, r.Requests, r.Unit, r.Multiplier)
	w := weir.Limit{Name: r.History, Max: int64(r.Requests), Window: r.Window}
	if l.windows != Rolling {
		// A fixed window has a history of its own, with its number in the key. It lasts longer
		// than the window, so that differences between clocks do not end it early.
		w.Window = min(2*r.Window, weir.MaxWindow)
		// Windows of other kinds have histories of their own. The salt of an override
		// holds its period already.
		kind := l.windows.String()
		if salt == "" {
			kind += r.Window.String()
		}
		w.Name = envoyconf.HistoryName(kind, []string{r.History}, nil)
	}
	if len(r.Varying) > 0 || l.windows != Rolling || salt != "" {
		// All values are one dimension.
		w.By = []string{w.Name}
	}
	var err error
	l.enforced, err = enforce.NewRule(&policy.Definition{Name: d.histories, Limits: []weir.Limit{w}, WhenStoreIsDown: s.options.Outage}, s.options.Engine)
	return l, err
}

// key returns the key of the limit for the entries in c.entries: the values that have separate
// histories and, for a fixed window, its number. Equal keys of one limit mean that all of
// these are equal.
func (l *limit) key(c *call) (key weir.Key, ends time.Time) {
	if len(l.enforced.Dimensions()) == 0 {
		return key, ends
	}
	varying := l.rule.Varying
	if len(varying) == 1 && l.windows == Rolling && l.salt == "" {
		if v := c.entries[varying[0]].Value; len(v) <= weir.MaxValueBytes {
			return weir.K(v), ends
		}
	}
	b := append(c.text[:0], l.salt...)
	if l.windows != Rolling {
		var number int64
		number, ends = l.windows.at(c.now, l.rule.Unit, l.rule.Window)
		b = binary.AppendVarint(b, number)
	}
	for _, i := range varying {
		b = keyenc.Append(b, c.entries[i].Value)
	}
	c.text = b
	if len(b) > weir.MaxValueBytes {
		sum := sha256.Sum256(b)
		b = append(b[:0], longMark...)
		b = append(b, sum[:]...)
	}
	return weir.K(string(b)), ends
}

// longMark begins the hash that replaces a value too long for a key. No other value
// begins with it: the text of a request is UTF-8, which has no such byte, and periods,
// window numbers and lengths never have this form.
const longMark = "\xff\xff\xff\xff"

// Windows is the kind of the windows of a configuration's rules.
type Windows uint8

const (
	// Rolling windows: "per minute" bounds every minute.
	Rolling Windows = iota

	// Fixed windows, as in the reference: each begins at a whole multiple of its length
	// since 1970 UTC. Up to twice the limit can pass within a minute, across the edge of
	// two windows.
	Fixed

	// CalendarMonth is Fixed, with calendar months.
	CalendarMonth
)

// String returns the word of the command line.
func (w Windows) String() string { return [...]string{"rolling", "fixed", "calendar-month"}[w] }

// at returns the number of the fixed window at now, and its end.
func (w Windows) at(now time.Time, unit envoyconf.Unit, period time.Duration) (number int64, ends time.Time) {
	if w == CalendarMonth && unit == envoyconf.Month {
		now = now.UTC()
		months := int64(period / envoyconf.Month.Length())
		number = (int64(now.Year()-1970)*12 + int64(now.Month()-1)) / months
		return number, time.Date(1970, time.Month(1+(number+1)*months), 1, 0, 0, 0, 0, time.UTC)
	}
	length := period.Microseconds()
	number = now.UnixMicro() / length
	return number, time.UnixMicro((number + 1) * length)
}

// Bounds of the overrides that a domain caches. Requests choose them, so a full cache is
// cleared. An override with longer keys is not cached.
const (
	maxCached      = 4096
	maxCachedBytes = 1 << 10 // bytes of the numbers and keys of an override
)

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
		return calls.BadInput("limit.unit: %d is not a unit; use SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", o.Unit)
	}
	n := uint32(1)
	if o.UnitMultiplier != nil {
		n = o.UnitMultiplier.Value
	}
	if _, problem := envoyconf.Period(unit, n); problem != "" {
		return calls.BadInput("limit.unit_multiplier: %s", problem)
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
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.overrides[string(key)]; l != nil {
		return l, nil
	}
	l, err := s.newOverride(d, o, c.entries)
	if err == nil && len(key) <= maxCachedBytes {
		if d.overrides == nil || len(d.overrides) == maxCached {
			d.overrides = map[string]*limit{}
		}
		d.overrides[string(key)] = l
	}
	return l, err
}

// appendKeys appends the keys of entries.
func appendKeys(b []byte, entries []envoyconf.Entry) []byte {
	for i := range entries {
		b = keyenc.Append(b, entries[i].Name)
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
