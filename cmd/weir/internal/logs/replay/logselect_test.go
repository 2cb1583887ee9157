package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestLogKeysCountRequestsWithoutAKey reads one line of each outcome.
func TestLogKeysCountRequestsWithoutAKey(t *testing.T) {
	log := logLine(1772697600, "192.0.2.1", "/api/a", 7) + logLine(1772697601, "-", "/api/a", 7) +
		logLine(1772697602, "2001:db8::1", "/static/x", 7) + logLine(1772697603, strings.Repeat("a", 1025), "/api/", 7)
	in := opened(t, strings.NewReader(log))
	k := must.Get(NewLogKeys(LogOptions{Keys: keysOf(t, "route=path:/api/", "ip=remote_addr"), Units: LogUnits{Bytes: true}}))(t)
	var got []string
	must.Do(t, k.Each(t.Context(), in, func(key []byte, _, n int64) error {
		got = append(got, fmt.Sprint(k.Named(string(key)), n))
		return nil
	}))
	c, err := k.Counts(in)
	if fmt.Sprint(got, k.Dimensions(), c.NoKey, c.Rejected, c.Filtered, err) != "[[{route /api/} {ip 192.0.2.1}] 7] [route ip] 1 1 1 <nil>" {
		t.Errorf("got %v, %v, %+v, %v", got, k.Dimensions(), c, err)
	}
}
