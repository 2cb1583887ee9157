package envoyconf

import (
	"testing"
	"time"
)

func TestWindowsAreExpressedInUnits(t *testing.T) {
	for _, c := range []struct {
		window     time.Duration
		unit       Unit
		multiplier uint32
	}{
		{time.Second, Second, 1},
		{90 * time.Second, Second, 90},
		{time.Minute, Minute, 1},
		{30 * time.Minute, Minute, 30},
		{time.Hour, Hour, 1},
		{36 * time.Hour, Hour, 36},
		{day, Day, 1},
		{7 * day, Week, 1},
		{30 * day, Day, 30},
		{365 * day, Day, 365},
		{250 * time.Millisecond, Second, 1},
		{1500 * time.Millisecond, Second, 2},
	} {
		if u, n := Express(c.window); u != c.unit || n != c.multiplier {
			t.Errorf("%v: got %d %v, want %d %v", c.window, n, u, c.multiplier, c.unit)
		}
	}
}

func TestNamesAreDistinct(t *testing.T) {
	names := map[string]string{}
	for _, domain := range []string{"a", "A", "a b", "messaging", ".x", "", "ä", "a.b", "a/b", "0123456789012345678901234567890123456789012345678901234567890123456789"} {
		name := PolicyName(domain)
		if other, twice := names[name]; twice {
			t.Errorf("%q and %q are both %q", domain, other, name)
		}
		names[name] = domain
	}
	if got := PolicyName("messaging"); got != "envoy.messaging" {
		t.Errorf("got %q, want a name that can be read", got)
	}
	a := HistoryName("rule", []string{"x_y"}, []string{""})
	b := HistoryName("rule", []string{"x", "y"}, []string{"", ""})
	c := HistoryName("rule", []string{"x_y"}, []string{"x_y*"})
	if a == b || a == c {
		t.Errorf("histories share a name: %q, %q, %q", a, b, c)
	}
}
