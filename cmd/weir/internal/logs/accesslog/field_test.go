package accesslog

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestLogsOfTheField reads logs after public reports, in which another version of this package
// found the wrong format, or none.
func TestLogsOfTheField(t *testing.T) {
	for _, c := range []struct {
		name    string
		fields  map[string]string
		format  Format
		entries int64
		bad     int64
		clients string
		problem string // of Open
	}{
		{name: "applog-as-cloudfront", problem: `which has no address of a client`},
		{name: "caddy-mixed", format: Caddy, entries: 3, bad: 3, clients: "192.0.2.1 192.0.2.2 192.0.2.1"},
		{name: "cri-json", format: Envoy, entries: 2, clients: "192.0.2.7 192.0.2.8"},
		{name: "istio-text", format: Envoy, entries: 2, clients: "192.0.2.8 192.0.2.9"},
		{name: "json-unknown-time", problem: "map the name of its member with --field time=requestTime"},
		{name: "json-unknown-time", fields: map[string]string{"time": "requestTime"}, format: NginxJSON, entries: 2, clients: "192.0.2.7 192.0.2.8"},
		{name: "nul-hole-small", format: Combined, entries: 6, clients: strings.TrimSpace(strings.Repeat("192.0.2.2 192.0.2.1 ", 3))},
	} {
		r, err := Open([]string{"testdata/field/" + c.name + ".log"}, Options{Fields: c.fields, Reorder: DefaultReorder})
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: got %v, want %s", c.name, err, c.problem)
			}
			continue
		}
		must.Do(t, err)
		var clients []string
		for e, err := range r.Entries(RemoteAddr) {
			must.Do(t, err)
			client, _ := e.Get(RemoteAddr)
			clients = append(clients, string(client))
		}
		s := r.Stats()
		if got := strings.Join(clients, " "); r.Files()[0].Format != c.format || s.Entries != c.entries || s.Bad != c.bad || got != c.clients {
			t.Errorf("%s: read as %s, %s, %+v; want %s, %s, %d and %d bad", c.name, r.Files()[0].Format, got, s, c.format, c.clients, c.entries, c.bad)
		}
	}
}

// TestHolesAreSkipped: zero bytes before a line are counted, of any size and in every place, and
// the line behind them is read.
func TestHolesAreSkipped(t *testing.T) {
	for _, n := range []int{1, 16, 1016, 64 << 10, MaxLineBytes, 300_000} {
		hole := strings.Repeat("\x00", n)
		path := write(t, "log", []byte(hole+lineAt(1, "a")+lineAt(2, "b")+hole+lineAt(3, "c")))
		got, r := paths(t, []string{path}, Options{})
		if s := r.Stats(); got != "a b c" || s.Zeros != int64(2*n) || s.Bad != 0 {
			t.Errorf("%d zeros: got %s, %+v", n, got, s)
		}
	}
	if r, err := Open([]string{write(t, "log", make([]byte, 200_000))}, Options{}); err != nil || r.Files()[0].Format != "" {
		t.Errorf("only zeros: got %v; want a file without lines", err)
	}
}

// TestDisorderIsASpanThatSorts: Stats.Disorder sorts all lines, which the default does not.
func TestDisorderIsASpanThatSorts(t *testing.T) {
	log, err := os.ReadFile("testdata/field/reorder-default.log")
	if err != nil {
		t.Fatal(err)
	}
	late := func(reorder time.Duration) Stats {
		r, err := Open([]string{"-"}, Options{Stdin: bytes.NewReader(log), Reorder: reorder})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range r.Entries() {
			must.Do(t, err)
		}
		return r.Stats()
	}
	d := late(0).Disorder
	if d != 40*time.Second || late(d).Late != 0 || late(DefaultReorder).Late == 0 {
		t.Errorf("the disorder is %v, with %d late lines; want 40s and none", d, late(d).Late)
	}
}

// TestFewReadLinesAreAnError: less than half of the lines have the detected format, unless the
// caller names it.
func TestFewReadLinesAreAnError(t *testing.T) {
	text := lineAt(1, "a") + strings.Repeat("PHP Warning: in /srv/shop.php\n", 2)
	var last error
	r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Entries() {
		last = err
	}
	want := "-: only 1 of 3 lines have the detected format combined; if it is right, name it with --format combined"
	if fmt.Sprint(last) != want || len(r.Stats().First) != 2 {
		t.Errorf("got %v with %v, want %s", last, r.Stats().First, want)
	}
	if _, r := paths(t, []string{"-"}, Options{Stdin: strings.NewReader(text), Format: Combined}); r.Stats().Entries != 1 {
		t.Errorf("with a format: %+v", r.Stats())
	}
}

// TestTimesWithoutAZone: HAProxy logs none, which is UTC and counted, unless the caller names one.
func TestTimesWithoutAZone(t *testing.T) {
	haproxy := `10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"` + "\n"
	common := strings.Replace(lineAt(43200, "a"), " +0000", "", 1)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line     string
		zone     *time.Location
		at       string
		zoneless int64
	}{
		{haproxy, nil, "2009-02-06T12:14:14.655Z", 1},
		{haproxy, berlin, "2009-02-06T11:14:14.655Z", 0},
		{common, berlin, "2026-03-05T11:00:00Z", 0},
	} {
		r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(c.line), Zone: c.zone})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range r.Entries() {
			must.Do(t, err)
			if at := time.UnixMicro(e.At).UTC().Format(time.RFC3339Nano); at != c.at {
				t.Errorf("%q in %v: got %s, want %s", c.line, c.zone, at, c.at)
			}
		}
		if s := r.Stats(); s.Entries != 1 || s.Zoneless != c.zoneless {
			t.Errorf("%q in %v: got %+v", c.line, c.zone, s)
		}
	}
}

// TestDetectionReadsFarEnough: lines that are too long and messages of the server have no vote,
// however many stand before the first access, in a file and in a pipe.
func TestDetectionReadsFarEnough(t *testing.T) {
	access := lineAt(1, "a") + lineAt(2, "b") + lineAt(3, "c")
	message := `{"level":"info","ts":1716200000.1,"msg":"started"}` + "\n"
	for _, c := range []struct {
		name, before string
		bad          int64
	}{
		{"a line of 100 KiB", strings.Repeat("x", 100<<10) + "\n", 1},
		{"a line of 1 MiB", strings.Repeat("x", 1<<20) + "\n", 1},
		{"two such lines", strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 2), 2},
		{"an access in a long line", strings.Replace(lineAt(0, "0"), "GET /", "GET /"+strings.Repeat("x", 100<<10), 1), 0},
		{"300 messages", strings.Repeat(message, 300), 300},
		{"20,000 messages", strings.Repeat(message, 20_000), 20_000},
	} {
		accesses := strings.Repeat(access, 7000) // more than the messages
		text := []byte(c.before + accesses)
		for name, o := range map[string]Options{write(t, "log", text): {}, "-": {Stdin: bytes.NewReader(text)}} {
			r, err := Open([]string{name}, o)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, name, err)
				continue
			}
			for _, err := range r.Entries() {
				must.Do(t, err)
			}
			if s := r.Stats(); s.Bad != c.bad || s.Lines() < 21_000+c.bad || r.Files()[0].Format != Combined {
				t.Errorf("%s, %s: read as %s with %+v, want %d bad lines", c.name, name, r.Files()[0].Format, s, c.bad)
			}
		}
	}
}

// TestAHoleInALine: a crash leaves a line that is cut, zero bytes, and the next line. That one is
// read, also behind a hole that is longer than a line can be.
func TestAHoleInALine(t *testing.T) {
	for _, n := range []int{1, 16, 4096, 3 * MaxLineBytes} {
		cut := lineAt(2, "b")[:40]
		text := lineAt(1, "a") + cut + strings.Repeat("\x00", n) + lineAt(3, "c") + lineAt(4, "d")
		got, r := paths(t, []string{write(t, "log", []byte(text))}, Options{})
		if s := r.Stats(); got != "a c d" || s.Bad != 1 || s.Zeros == 0 {
			t.Errorf("a hole of %d bytes: got %s, %+v", n, got, s)
		}
	}
}

// TestLinesMayBeIndented as those of a log that was copied from a page.
func TestLinesMayBeIndented(t *testing.T) {
	if got, r := paths(t, []string{"-"}, Options{Stdin: strings.NewReader("  " + lineAt(1, "a") + "\t" + lineAt(2, "b"))}); got != "a b" {
		t.Errorf("got %q, %+v", got, r.Stats())
	}
}

// TestTheHourThatAZoneHasTwice: without zones in the log the order of the lines shows which of the
// two hours at the end of summer time a line is of.
func TestTheHourThatAZoneHasTwice(t *testing.T) {
	for zone, c := range map[string]struct{ day, hours, at string }{
		"Europe/Berlin":       {"25/Oct/2026", "01:30 02:00 02:30 02:59 02:00 02:30 02:29 02:59 03:00 03:30", "23:30 00:00 00:30 00:59 01:00 01:30 01:29 01:59 02:00 02:30"},
		"America/New_York":    {"01/Nov/2026", "00:30 01:00 01:30 01:59 01:00 01:30 02:00", "04:30 05:00 05:30 05:59 06:00 06:30 07:00"},
		"Australia/Lord_Howe": {"05/Apr/2026", "01:29 01:45 01:59 01:31 01:45 01:59 02:00", "14:29 14:45 14:59 15:01 15:15 15:29 15:30"},
		"UTC":                 {"25/Oct/2026", "02:00 02:30 02:00", "02:00 02:30 02:00"},
	} {
		location, err := time.LoadLocation(zone)
		must.Do(t, err)
		var text strings.Builder
		for clock := range strings.FieldsSeq(c.hours) {
			fmt.Fprintf(&text, "192.0.2.1 - - [%s:%s:00] \"GET / HTTP/1.1\" 200 1\n", c.day, clock)
		}
		r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(text.String()), Zone: location})
		must.Do(t, err)
		var got []string
		for e, err := range r.Entries() {
			must.Do(t, err)
			got = append(got, time.UnixMicro(e.At).UTC().Format("15:04"))
		}
		if at := strings.Join(got, " "); at != c.at {
			t.Errorf("%s: %s is %s, want %s", zone, c.hours, at, c.at)
		}
	}
}

// TestOtherLoggersOfCaddy: an access that fails has a second line, of the logger of errors, and is
// one request.
func TestOtherLoggersOfCaddy(t *testing.T) {
	const object = `{"level":"%s","ts":1716200001.1,"logger":"%s","msg":"m","request":{"remote_ip":"192.0.2.1","client_ip":"192.0.2.1","method":"GET","uri":"/","headers":{}},"status":502}` + "\n"
	const console = "2024/05/20 10:13:21.100\tERROR\t%s\tdial tcp\t" + `{"request": {"remote_ip": "192.0.2.1", "client_ip": "192.0.2.1", "method": "GET", "uri": "/"}, "status": 502}` + "\n"
	for _, text := range []string{
		fmt.Sprintf(object, "error", "http.log.error.log0") + fmt.Sprintf(object, "error", "http.log.access.log0"),
		fmt.Sprintf(object, "debug", "http.handlers.reverse_proxy") + fmt.Sprintf(object, "info", "http.log.access"),
		strings.Repeat(fmt.Sprintf(console, "http.log.error"), 2) + fmt.Sprintf(console, "http.log.access"),
	} {
		for _, format := range []Format{Auto, Caddy} {
			r, err := Open([]string{"-"}, Options{Format: format, Stdin: strings.NewReader(text)})
			must.Do(t, err)
			for _, err := range r.Entries() {
				must.Do(t, err)
			}
			bad := int64(strings.Count(text, "\n")) - 1
			if s := r.Stats(); r.Files()[0].Format != Caddy || s.Entries != 1 || s.Bad != bad {
				t.Errorf("%s: read as %s, %+v; want one request", text, r.Files()[0].Format, s)
			}
		}
	}
}

// TestMoreLinesThanCanWait: a window of many lines sorts only some of them, which is reported.
func TestMoreLinesThanCanWait(t *testing.T) {
	var text strings.Builder
	for i := range maxWaiting + 2 {
		text.WriteString(lineAt(i/4000+10, "a"))
	}
	text.WriteString(lineAt(1, "late"))
	for reorder, want := range map[time.Duration]bool{time.Second: false, time.Minute: true} {
		r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(text.String()), Reorder: reorder})
		must.Do(t, err)
		for _, err := range r.Entries() {
			must.Do(t, err)
		}
		if s := r.Stats(); s.Late != 1 || s.Crowded != want {
			t.Errorf("%v: got %+v, want one late line, and crowded %v", reorder, s, want)
		}
	}
}
