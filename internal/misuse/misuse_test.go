package misuse

import "testing"

func TestUnitsHaveTheirNumber(t *testing.T) {
	for n, want := range map[int64]string{0: "0 units", 1: "1 unit", -1: "-1 units", 2: "2 units", 11: "11 units"} {
		if got := Units(n); got != want {
			t.Errorf("Units(%d) = %q, want %q", n, got, want)
		}
	}
	if got := Units("1") + ", " + Units("250"); got != "1 unit, 250 units" {
		t.Errorf("of texts: %q", got)
	}
}
