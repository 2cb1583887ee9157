package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
	"github.com/weirlimit/weir/policy"
)

// TestNextWindows: the next windows begin by the clock of the zone, also when the zone changes
// its offset.
func TestNextWindows(t *testing.T) {
	cases := []struct{ line, now, want string }{
		{"1 per day, fixed in Europe/Berlin", "2027-03-27T12:00:00Z", "2027-03-28T00:00:00+01:00 (2027-03-27T23:00:00Z) and 2027-03-29T00:00:00+02:00 (2027-03-28T22:00:00Z)"},
		{"1 per day, fixed in Europe/Berlin", "2027-10-30T22:00:00Z", "2027-11-01T00:00:00+01:00 (2027-10-31T23:00:00Z) and 2027-11-02T00:00:00+01:00 (2027-11-01T23:00:00Z)"},
		{"1 per month, fixed from the 31st", "2027-01-31T00:00:00Z", "2027-02-28T00:00:00Z and 2027-03-31T00:00:00Z"},
		{"1 per week, fixed", "2026-12-31T23:59:59Z", "2027-01-04T00:00:00Z and 2027-01-11T00:00:00Z"},
		{"1 per hour, fixed in Asia/Kathmandu", "2026-12-31T23:59:59Z", "2027-01-01T06:00:00+05:45 (2027-01-01T00:15:00Z) and 2027-01-01T07:00:00+05:45 (2027-01-01T01:15:00Z)"},
		{"1 per day, fixed", "2026-12-31T23:59:59Z", ""},
	}
	for _, c := range cases {
		f, err := policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n  a: {limit: \""+c.line+"\"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		v := describe("weir.yaml", f, now)
		want := ""
		if c.want != "" {
			want = "  a, limit limit: the next windows begin at " + c.want + "\n"
		}
		if got := v.Fixed[0].nextWindowsText(); got != want {
			t.Errorf("%s at %s: got %q, want %q", c.line, c.now, got, want)
		}
	}
}

// hideZones runs a program where the system has no data of time zones.
const hideZones = `for dir in /usr/share/zoneinfo /usr/share/lib/zoneinfo /usr/lib/locale/TZ /etc/zoneinfo; do
	if [ -d $dir ]; then mount -t tmpfs none $dir || exit 9; fi
done
exec "$0" "$@"`

// TestProgramCarriesZones: the program has its own data of time zones, for systems without
// them.
func TestProgramCarriesZones(t *testing.T) {
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil || !slices.Contains(strings.Fields(string(deps)), "time/tzdata") {
		t.Errorf("the program does not import time/tzdata: %v", err)
	}
	needs.Namespaces(t)
	hide := []string{"--map-root-user", "--mount", "sh", "-c", hideZones}
	file := writePolicies(t, "version: 1\npolicies:\n  a: {limit: \"1 per day, fixed in Europe/Berlin\"}\n")
	weir := program.Path(t) // built without the path of the Go distribution
	validate := exec.Command("unshare", append(hide, weir, "validate", file)...)
	validate.Env = []string{"PATH=" + os.Getenv("PATH")} // without ZONEINFO
	out, err := validate.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the next windows begin at 20") {
		t.Errorf("weir validate: %v\n%s", err, out)
	}
}
