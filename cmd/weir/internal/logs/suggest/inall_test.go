package suggest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// TestInAllTheHoursAreCompared: without a key the limit for all requests together lies above those
// of ordinary hours, and below those of a night of guesses from many addresses.
func TestInAllTheHoursAreCompared(t *testing.T) {
	var log strings.Builder
	for i := range int64(48 * 60) {
		at := (1772582400 + i*60) * second
		log.WriteString(line(at, "192.0.2.1", 1))
		for j := range int64(40) {
			if hour := i / 60; hour == 2 || hour == 3 {
				log.WriteString(line(at+j*second, fmt.Sprintf("198.51.100.%d", j), 1))
			}
		}
	}
	o := Options{LogOptions: replay.LogOptions{Keys: []replay.LogKey{}}, Windows: []time.Duration{time.Minute}}
	d, err := run(t, log.String(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := d.Windows[0].Suggested
	want := "2 per minute in all denies requests in 2 hours that stand apart, and in no other hour"
	if s.Headline != want || s.Basis != Gap || s.Limit != 2 || s.Line != "2 per minute" {
		t.Errorf("got %+v; want %s", s, want)
	}
}
