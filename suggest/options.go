package suggest

import (
	"net/netip"
	"time"

	"github.com/weirlimit/weir/replay"
)

// Bounds of a result.
const (
	MaxWindows = 16  // of Options.Windows
	MaxLimits  = 200 // of Options.Limits
	MaxTop     = 200 // keys of Window.Top and Window.Heaviest
	MaxDays    = 62  // of Result.Days; of a longer log the newest
)

// DefaultMemory is the memory of Options.Memory that is 0: 512 MiB.
const DefaultMemory = 512 << 20

// DefaultSpare is the share of Options.Spare that is 0.
const DefaultSpare = 0.999

// Options select the requests, their keys, and the limits to try.
type Options struct {
	Keys    []replay.LogKey   // at least one
	Where   []replay.LogWhere // all must match
	Units   replay.LogUnits   // of each request, above 0
	Windows []time.Duration   // whole microseconds up to 400 days; nil = DefaultWindows
	Limits  []int64           // candidates of every window, 0 … weir.MaxUnits; nil = about 30 around the peaks
	Spare   float64           // share of the keys, above 0 and up to 1, that a suggestion without a gap spares; 0 = DefaultSpare
	Zone    *time.Location    // of hours and days; nil = UTC
	Memory  int64             // bytes for keys and requests; 0 = DefaultMemory

	TrustedProxies []netip.Prefix // as in replay.LogOptions
}

// DefaultWindows are the windows of Options without any: 1 s, 1 min and 1 h.
func DefaultWindows() []time.Duration {
	return []time.Duration{time.Second, time.Minute, time.Hour}
}
