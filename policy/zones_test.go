package policy

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestZonesAreThoseOfTheGoDistribution: the list of zones is that of the Go distribution's data.
func TestZonesAreThoseOfTheGoDistribution(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	var names []string
	for _, f := range data.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" { // of a system without a zone
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	if len(names) < 400 {
		t.Fatalf("the data holds %d zones, want at least 400", len(names))
	}
	golden(t, "zones.txt", []byte(strings.Join(names, "\n")+"\n"))
	for _, name := range names {
		if _, err := time.LoadLocation(name); err != nil {
			t.Errorf("zone %q: %v", name, err)
		}
	}
}

func TestUnknownZonesSuggestTheNearest(t *testing.T) {
	for zone, want := range map[string]string{
		"Europe/Berlim":     "Europe/Berlin",
		"berlin":            "Europe/Berlin",
		"EUROPE/BERLIN":     "Europe/Berlin",
		"New_York":          "America/New_York",
		"America/NewYork":   "America/New_York",
		"Amerika/New_York":  "America/New_York",
		"US/Easten":         "US/Eastern",
		"Kolkata":           "Asia/Kolkata",
		"utc":               "UTC",
		"Europe/Tokio":      "Asia/Tokyo",
		"Mars/Olympus_Mons": "",
	} {
		near := nearZones(zone)
		if want != "" && !slices.Contains(near, want) || want == "" && len(near) > 0 || len(near) > 3 {
			t.Errorf("%q: got %q, want %q among them", zone, near, want)
		}
	}
}
