package suggest

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

// ipKey returns the key of clients.
func ipKey(t *testing.T) []replay.LogKey {
	t.Helper()
	logKey, err := replay.ParseLogKey("ip=remote_addr")
	if err != nil {
		t.Fatal(err)
	}
	return []replay.LogKey{logKey}
}

// run runs suggest on a text.
func run(t *testing.T, log string, o Options) (*Result, error) {
	t.Helper()
	if o.Keys == nil {
		o.Keys = ipKey(t)
	}
	if o.Units == (replay.LogUnits{}) {
		o.Units.N = 1
	}
	return Run(opened(t, log), withDefaults(o))
}

// opened opens a log.
func opened(t *testing.T, log string) *accesslog.Reader {
	t.Helper()
	o := accesslog.Options{Stdin: strings.NewReader(log), Reorder: accesslog.DefaultReorder}
	reader, err := accesslog.Open([]string{"-"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// withDefaults returns options with the defaults of weir suggest.
func withDefaults(o Options) Options {
	if o.Windows == nil {
		o.Windows = []time.Duration{time.Second, time.Minute, time.Hour}
	}
	o.Spare, o.Memory, o.Zone = 0.999, cmp.Or(o.Memory, 512<<20), time.UTC
	return o
}

// line is a line of a log in microseconds.
func line(at int64, addr string, size int) string {
	return fmt.Sprintf(`{"ts":"%s","remote_addr":%q,"bytes_sent":%d}`+"\n", time.UnixMicro(at).UTC().Format(time.RFC3339Nano), addr, size)
}

// TestUnitsHaveABound: no window has more units than a limit can have, and a suggestion is one
// that a policy file can have.
func TestUnitsHaveABound(t *testing.T) {
	log := line(1_000_000_000_000_000, "192.0.2.1", 1) + line(1_000_000_000_000_001, "192.0.2.1", 1)
	for units, want := range map[int64]string{
		weir.MaxUnits / 2: "",
		weir.MaxUnits:     "the requests have more than 2251799813685247 units together, which is the bound of a limit",
	} {
		r, err := run(t, log, Options{LogOptions: replay.LogOptions{Units: replay.LogUnits{N: units}}})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%d units: got %v, want %s", units, err, want)
			}
			continue
		}
		must.Do(t, err)
		for _, w := range r.Windows {
			if _, _, err := policy.ParseLimit(w.Suggested.Line); err != nil {
				t.Errorf("%d units: %s: %v", units, w.Suggested.Line, err)
			}
		}
	}
}
