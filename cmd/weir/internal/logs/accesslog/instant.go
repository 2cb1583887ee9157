package accesslog

import (
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

const micro = 1_000_000

const (
	errTime   = problem("the time is in no known notation; use RFC 3339, 10/Oct/2000:13:55:36 -0700, or a number since 1970")
	errNoZone = problem("the time has no zone, and a guess could be wrong by hours; log it with an offset, such as time_iso8601 of nginx")
	errRange  = problem("the time is outside 1970 … 2255")
)

// layouts are the notations of times, each with any fraction of a second.
var layouts = [...]string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05Z07",
	"02/Jan/2006:15:04:05 -0700", "02/Jan/2006:15:04:05Z07:00",
	"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006/01/02 15:04:05", "02/Jan/2006:15:04:05",
}

// noZone is the index of the first layout without a zone.
const noZone = 8

// parseInstant reads an instant in any notation: microseconds since 1970.
func parseInstant(b []byte) (int64, error) {
	if len(b) < len(time.DateTime) || b[4] != '-' && b[4] != '/' && b[2] != '/' {
		return parseNumberTime(b)
	}
	for i, layout := range layouts {
		if b[2] != layout[2] && (b[2] == '/' || layout[2] == '/') {
			continue // an error of time.Parse takes memory
		}
		t, err := time.Parse(layout, string(b))
		switch {
		case err != nil:
		case i >= noZone:
			return 0, errNoZone
		default:
			return inRange(t.UnixMicro())
		}
	}
	return 0, errTime
}

// parseNumberTime reads a number since 1970. Its unit follows from its size.
func parseNumberTime(b []byte) (int64, error) {
	text := string(b)
	whole, _, _ := strings.Cut(text, ".")
	units := [...]string{"s", "ms", "us", "ns"} // seconds have up to 11 digits, and each unit 3 more
	unit := units[min(max(0, len(whole)/3-3), len(units)-1)]
	d, err := time.ParseDuration(text + unit)
	if err != nil || strings.Trim(text, "0123456789.") != "" {
		return 0, errTime
	}
	return inRange(d.Microseconds())
}

func inRange(at int64) (int64, error) {
	if at < 0 || at > weir.MaxInstant {
		return 0, errRange
	}
	return at, nil
}
