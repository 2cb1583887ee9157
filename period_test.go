package weir

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// calendarZones have daylight saving time by many rules: at midnight, by half an hour or
// two hours, below the standard time, by the moon, and none.
var calendarZones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Moscow", "Atlantic/Azores",
	"America/New_York", "America/Los_Angeles", "America/St_Johns", "America/Havana", "America/Santiago",
	"America/Sao_Paulo", "America/Nuuk", "America/Asuncion", "America/Scoresbysund",
	"Africa/Cairo", "Africa/Casablanca", "Africa/Juba", "Antarctica/Troll", "Antarctica/Casey",
	"Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Tehran", "Asia/Tokyo",
	"Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati",
}

// zoneData is a directory with the time zones of the Go distribution, for Go and for the C
// library alike: where two versions of the data differ, neither is wrong.
type zoneData string

func unpackZones(t *testing.T) zoneData {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal("go env GOROOT:", err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, archive))
	return zoneData(dir)
}

func (d zoneData) load(t *testing.T, name string) *time.Location {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(d), name))
	if err != nil {
		t.Fatal(err)
	}
	zone, err := time.LoadLocationFromTZData(name, text)
	if err != nil {
		t.Fatal(name, err)
	}
	return zone
}

// question is an instant of which the window is requested.
type question struct {
	zone   *time.Location
	period Period
	anchor int
	at     int64
}

func (q question) String() string {
	return fmt.Sprintf("%s %c %d %d", q.zone, q.period.String()[0], max(q.anchor, 1), q.at)
}

// instants returns n instants from 2020 to 2040: a third anywhere, a third around changes
// of the clock, and a third around the ends of months.
func instants(r *rand.Rand, zone *time.Location, n int) []int64 {
	begin := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	span := time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC).Sub(begin)
	var changes []time.Time
	offset := func(t time.Time) int { _, seconds := t.In(zone).Zone(); return seconds }
	for day := begin; day.Before(begin.Add(span)); day = day.Add(24 * time.Hour) {
		if offset(day) == offset(day.Add(24*time.Hour)) {
			continue // no zone changes twice a day
		}
		for t := day; t.Before(day.Add(24 * time.Hour)); t = t.Add(time.Hour) {
			if offset(t) != offset(t.Add(time.Hour)) {
				changes = append(changes, t)
			}
		}
	}
	all := make([]int64, n)
	for i := range all {
		t := begin.Add(time.Duration(r.Int64N(int64(span))))
		near := time.Duration(r.NormFloat64() * float64(8*time.Hour))
		switch {
		case i%3 == 1 && len(changes) > 0:
			t = changes[r.IntN(len(changes))].Add(near)
		case i%3 == 2:
			t = time.Date(t.Year(), t.Month(), 1+r.IntN(3)/2*(27+r.IntN(4)), 0, 0, 0, 0, zone).Add(near)
		}
		if r.IntN(4) == 0 { // a microsecond before a full minute, or at it
			t = t.Truncate(time.Minute).Add(-time.Duration(r.IntN(2)) * time.Microsecond)
		}
		all[i] = t.UnixMicro()
	}
	return all
}

// TestPeriodsMatchTheCLibrary: the windows around 100,000 instants of 30 zones are those
// that testdata/calendar.c finds by walking through the readings of localtime_r.
func TestPeriodsMatchTheCLibrary(t *testing.T) {
	t.Parallel()
	const seed = 1
	perZone := race.Fewer(race.Fewer(3400)) // by one goroutine; make check asks for all
	data := unpackZones(t)
	var questions []question
	var input bytes.Buffer
	for z, zone := range calendarZones {
		r := rand.New(rand.NewPCG(seed, uint64(z)))
		location := data.load(t, zone)
		for _, at := range instants(r, location, perZone) {
			q := question{zone: location, period: Hour + Period(r.IntN(4)), at: at}
			switch q.period {
			case Week:
				q.anchor = r.IntN(8)
			case Month:
				q.anchor = r.IntN(32)
				if r.IntN(3) == 0 {
					q.anchor = 28 + r.IntN(4)
				}
			}
			questions = append(questions, q)
			fmt.Fprintln(&input, q)
		}
	}
	answers := bufio.NewScanner(calendarProgram(t, string(data), "2019", "2042", &input))
	for _, q := range questions {
		if !answers.Scan() {
			t.Fatalf("%v: no answer: %v", q, answers.Err())
		}
		windows := engine.Calendar{Period: q.period, Anchor: max(q.anchor, 1), Zone: q.zone}
		start, end := windows.WindowAt(q.at)
		if got, want := fmt.Sprint(start, end), answers.Text(); got != want {
			t.Errorf("seed %d: %v around %v of %s, anchor %d: got %s, want %s", seed, q.period,
				time.UnixMicro(q.at).In(q.zone), q.zone, q.anchor, got, want)
		}
		if t.Failed() && testing.Short() {
			return
		}
	}
	if want := race.Fewer(race.Fewer(100_000)); len(questions) < want {
		t.Errorf("%d instants, want %d", len(questions), want)
	}
}

// calendarProgram compiles testdata/calendar.c and returns its answers.
func calendarProgram(t *testing.T, zones, from, to string, input io.Reader) io.Reader {
	t.Helper()
	program := filepath.Join(t.TempDir(), "calendar")
	if out, err := exec.Command(needs.Program(t, "gcc"), "-O2", "-Wall", "-o", program, "testdata/calendar.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	c := exec.Command(program, from, to)
	c.Env = append(os.Environ(), "TZDIR="+zones)
	c.Stdin, c.Stderr = input, os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal("calendar:", err)
	}
	return bytes.NewReader(out)
}

// TestPeriodsAtChangesOfTheClock: windows at readings that a clock skips or shows twice.
func TestPeriodsAtChangesOfTheClock(t *testing.T) {
	data := unpackZones(t)
	for _, c := range []struct {
		about, zone string
		period      Period
		anchor      int
		at          string
		start, end  string // by the clock of the zone
	}{
		{"the clock skips 2 to 3", "Europe/Berlin", Hour, 0, "2024-03-31T01:30:00+01:00", "2024-03-31T01:00:00+01:00", "2024-03-31T03:00:00+02:00"},
		{"and the day has 23 hours", "Europe/Berlin", Day, 0, "2024-03-31T12:00:00+02:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00"},
		{"the clock shows 1 to 2 twice, first", "America/New_York", Hour, 0, "2024-11-03T01:30:00-04:00", "2024-11-03T01:00:00-04:00", "2024-11-03T02:00:00-05:00"},
		{"the clock shows 1 to 2 twice, again", "America/New_York", Hour, 0, "2024-11-03T01:30:00-05:00", "2024-11-03T01:00:00-04:00", "2024-11-03T02:00:00-05:00"},
		{"and the day has 25 hours", "America/New_York", Day, 0, "2024-11-03T12:00:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"},
		{"the clock skips midnight", "Africa/Cairo", Day, 0, "2023-04-28T01:00:00+03:00", "2023-04-28T01:00:00+03:00", "2023-04-29T00:00:00+03:00"},
		{"a microsecond before a skipped midnight", "Africa/Cairo", Day, 0, "2023-04-27T23:59:59.999999+02:00", "2023-04-27T00:00:00+02:00", "2023-04-28T01:00:00+03:00"},
		{"the clock shows midnight twice, first", "America/Havana", Day, 0, "2024-11-03T00:30:00-04:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"},
		{"the clock shows midnight twice, again", "America/Havana", Day, 0, "2024-11-03T00:30:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"},
		{"the clock falls back to the day before", "America/St_Johns", Day, 0, "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"the clock falls back at midnight, before it shows it", "America/Santiago", Day, 0, "2024-04-06T23:30:00-04:00", "2024-04-06T00:00:00-03:00", "2024-04-07T00:00:00-04:00"},
		{"the zone skips a day; the day before", "Pacific/Apia", Day, 0, "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"the zone skips a day; the day behind", "Pacific/Apia", Day, 0, "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"the anchor's day is skipped", "Pacific/Apia", Month, 30, "2012-01-15T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-30T00:00:00+14:00"},
		{"the week's first day is skipped", "Pacific/Apia", Week, 5, "2012-01-02T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-06T00:00:00+14:00"},
		{"a zone shows a day twice", "Pacific/Kwajalein", Day, 0, "1969-09-30T12:00:00-12:00", "1969-09-30T00:00:00+11:00", "1969-10-01T00:00:00-12:00"},
		{"half an hour beside UTC", "Asia/Kolkata", Hour, 0, "2024-06-01T00:15:00Z", "2024-06-01T05:00:00+05:30", "2024-06-01T06:00:00+05:30"},
		{"45 minutes beside UTC", "Asia/Kathmandu", Day, 0, "2024-06-01T18:14:59.999999Z", "2024-06-01T00:00:00+05:45", "2024-06-02T00:00:00+05:45"},
		{"the clock skips half an hour", "Australia/Lord_Howe", Hour, 0, "2024-10-06T02:45:00+11:00", "2024-10-06T02:30:00+11:00", "2024-10-06T03:00:00+11:00"},
		{"the clock falls back by half an hour", "Australia/Lord_Howe", Hour, 0, "2024-04-07T01:45:00+10:30", "2024-04-07T01:00:00+11:00", "2024-04-07T02:00:00+10:30"},
		{"the last day of a leap year", "America/New_York", Day, 0, "2024-12-31T12:00:00-05:00", "2024-12-31T00:00:00-05:00", "2025-01-01T00:00:00-05:00"},
		{"the last hour of a leap year", "Australia/Lord_Howe", Hour, 0, "2040-12-31T23:59:59.999999+11:00", "2040-12-31T23:00:00+11:00", "2041-01-01T00:00:00+11:00"},
		{"the last month of a leap year", "Europe/Berlin", Month, 31, "2028-12-31T00:00:00+01:00", "2028-12-31T00:00:00+01:00", "2029-01-31T00:00:00+01:00"},
		{"the anchor is behind February's end", "America/New_York", Month, 31, "2024-03-15T00:00:00-04:00", "2024-02-29T00:00:00-05:00", "2024-03-31T00:00:00-04:00"},
		{"the anchor is behind February's end", "America/New_York", Month, 29, "2023-02-28T00:00:00-05:00", "2023-02-28T00:00:00-05:00", "2023-03-29T00:00:00-04:00"},
		{"an invoice month from the 14th", "America/New_York", Month, 14, "2024-03-13T23:59:59.999999-04:00", "2024-02-14T00:00:00-05:00", "2024-03-14T00:00:00-04:00"},
		{"weeks begin on Monday", "UTC", Week, 0, "2024-03-03T23:59:59.999999Z", "2024-02-26T00:00:00Z", "2024-03-04T00:00:00Z"},
		{"weeks from Sunday", "UTC", Week, 7, "2024-03-03T00:00:00Z", "2024-03-03T00:00:00Z", "2024-03-10T00:00:00Z"},
		{"a week across a change of the clock", "Europe/Berlin", Week, 6, "2024-03-31T12:00:00+02:00", "2024-03-30T00:00:00+01:00", "2024-04-06T00:00:00+02:00"},
		{"the first instant", "America/New_York", Month, 0, "1970-01-01T00:00:00Z", "1969-12-31T19:00:00-05:00", "1970-01-01T00:00:00-05:00"},
		{"the first instant", "Asia/Tokyo", Week, 0, "1970-01-01T00:00:00Z", "1970-01-01T09:00:00+09:00", "1970-01-05T00:00:00+09:00"},
		{"the last instant", "Europe/Berlin", Month, 0, "2255-06-05T23:47:34.740991Z", "2255-06-01T00:00:00+02:00", "2255-07-01T00:00:00+02:00"},
		{"the last instant", "Pacific/Chatham", Hour, 0, "2255-06-05T23:47:34.740991Z", "2255-06-06T12:00:00+12:45", "2255-06-06T13:00:00+12:45"},
	} {
		zone := data.load(t, c.zone)
		windows := engine.Calendar{Period: c.period, Anchor: max(c.anchor, 1), Zone: zone}
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(c.about, err)
		}
		start, end := windows.WindowAt(at.UnixMicro())
		clock := func(us int64) string { return time.UnixMicro(us).In(zone).Format(time.RFC3339Nano) }
		if clock(start) != c.start || clock(end) != c.end {
			t.Errorf("%s: the %v around %s in %s, anchor %d: got %s to %s, want %s to %s",
				c.about, c.period, c.at, c.zone, c.anchor, clock(start), clock(end), c.start, c.end)
		}
	}
}

// TestPeriodsTile: from 1970 to 2255 each window begins where the one before it ends, and
// contains exactly its own instants.
func TestPeriodsTile(t *testing.T) {
	t.Parallel()
	const seed = 1
	stride := int64(100) // windows
	if race.Enabled {
		stride = 1600 // by one goroutine; make check goes by 100
	}
	data := unpackZones(t)
	for _, name := range calendarZones {
		zone := data.load(t, name)
		r := rand.New(rand.NewPCG(seed, 3))
		for period := Hour; period <= Month; period++ {
			windows := engine.Calendar{Period: period, Anchor: 1 + len(name)%7, Zone: zone}
			longest := (period.Length() + 24*time.Hour).Microseconds()
			for at := int64(0); at <= MaxInstant; at += r.Int64N(stride * longest) {
				start, end := windows.WindowAt(at)
				next, nextEnd := windows.WindowAt(end)
				if start > at || at >= end || end-start > longest || next != end || nextEnd <= next {
					t.Fatalf("%s, %v around %d: %d to %d, then %d to %d", name, period, at, start, end, next, nextEnd)
				}
				for _, inside := range []int64{start, end - 1} {
					if s, e := windows.WindowAt(inside); s != start || e != end {
						t.Fatalf("%s, %v from %d to %d: around %d it is %d to %d", name, period, start, end, inside, s, e)
					}
				}
			}
		}
	}
}
