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
