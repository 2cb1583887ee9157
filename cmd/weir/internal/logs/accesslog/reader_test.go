package accesslog

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// lineAt returns a combined line at a second of a day, for a path.
func lineAt(second int, path string) string {
	at := time.Date(2026, 3, 5, 0, 0, second, 0, time.UTC).Format("02/Jan/2006:15:04:05 -0700")
	return fmt.Sprintf("192.0.2.1 - - [%s] \"GET /%s HTTP/1.1\" 200 1 \"-\" \"-\"\n", at, path)
}

// write writes a file and returns its path.
func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, b, 0o666))
	return path
}

// paths reads all entries and returns their paths, and the reader.
func paths(t *testing.T, files []string, o Options) (string, *Reader) {
	t.Helper()
	if o.Reorder == 0 {
		o.Reorder = DefaultReorder
	}
	r, err := Open(files, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []string
	for e, err := range r.Entries(Path) {
		must.Do(t, err)
		p, _ := e.Get(Path)
		all = append(all, string(p[1:]))
	}
	return strings.Join(all, " "), r
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}

func zstandard(t *testing.T, text string) []byte {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return encoder.EncodeAll([]byte(text), nil)
}

func TestSortsLinesWithinTheWindow(t *testing.T) {
	text := lineAt(10, "a") + lineAt(12, "b") + lineAt(8, "c") + lineAt(12, "d") + lineAt(20, "e") + lineAt(14, "late") + lineAt(21, "f")
	for _, c := range []struct {
		reorder time.Duration
		want    string
		late    int64
	}{
		{5 * time.Second, "c a b d late e f", 0},
		{2 * time.Second, "a c b d late e f", 1},
		{time.Nanosecond, "a b c d e late f", 2},
	} {
		got, r := paths(t, []string{"-"}, Options{Stdin: strings.NewReader(text), Reorder: c.reorder})
		if s := r.Stats(); got != c.want || s.Late != c.late {
			t.Errorf("%v: got %s with %d late, want %s with %d", c.reorder, got, s.Late, c.want, c.late)
		}
	}
}

// TestRandomOrder compares the reader with a stable sort.
func TestRandomOrder(t *testing.T) {
	type line struct {
		at   int
		name string
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []line
		var files, want []string
		for f := range 3 {
			var b strings.Builder
			for i := range 200 {
				l := line{i/2*(f+1) + r.IntN(5), fmt.Sprintf("%d.%d", f, i)}
				all = append(all, l)
				b.WriteString(lineAt(l.at, l.name))
			}
			files = append(files, write(t, "log", gzipped(b.String())))
		}
		slices.SortStableFunc(all, func(a, b line) int { return a.at - b.at })
		for _, l := range all {
			want = append(want, l.name)
		}
		got, reader := paths(t, files, Options{})
		if got != strings.Join(want, " ") || reader.Stats().Late != 0 {
			t.Fatalf("seed %d: got %s\nwant %s", seed, got, want)
		}
	}
}

func TestMergesFilesByTime(t *testing.T) {
	files := []File{
		{Name: write(t, "access.log", []byte(lineAt(100, "e")+lineAt(101, "f"))), Format: Combined},
		{Name: write(t, "json", []byte(`{"time_iso8601":"2026-03-05T00:00:56Z","status":200,"request_uri":"/C"}`+"\n")), Format: NginxJSON},
		{Name: write(t, "access.log.1.gz", gzipped(lineAt(50, "b")+lineAt(60, "d"))), Format: Combined},
		{Name: write(t, "empty", nil), Format: ""},
		{Name: write(t, "access.log.2.zst", zstandard(t, lineAt(1, "a")+lineAt(55, "c"))), Format: Combined},
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	if got, r := paths(t, names, Options{}); got != "a b c C d e f" || !slices.Equal(r.Files(), files) {
		t.Errorf("got %s of %v, want %v", got, r.Files(), files)
	}
}

// TestCopiesAreNamed: a copy begins with the same lines, in whatever file and compression.
func TestCopiesAreNamed(t *testing.T) {
	log := ""
	for i := range 200 {
		log += lineAt(i, "a")
	}
	lines := strings.SplitAfter(log, "\n")
	first := write(t, "access.log", []byte(log))
	for _, c := range []struct {
		name   string
		text   []byte
		isCopy bool
	}{
		{"backup", []byte(log), true},
		{"old.gz", gzipped(log), true},
		{"old.zst", zstandard(t, log), true},
		{"before it grew", []byte(strings.Join(lines[:100], "")), true},
		{"its second half", []byte(strings.Join(lines[100:], "")), false},
		{"another request at the beginning", []byte(lineAt(0, "b") + log), false},
		{"no request", nil, false},
	} {
		name := write(t, "log", c.text)
		_, r := paths(t, []string{first, write(t, "other", []byte(lineAt(7, "c"))), name}, Options{})
		want := ""
		if c.isCopy {
			want = first
		}
		files := r.Files()
		if got := files[2].CopyOf; got != want || files[0].CopyOf+files[1].CopyOf != "" {
			t.Errorf("%s: a copy of %q, want %q", c.name, got, want)
		}
	}
	// files without a request, such as new ones of a recorder, are no copies
	header := TraceHeader{Version: TraceVersion, Sample: 1, Keys: "plain"}.AppendJSON(nil)
	_, r := paths(t, []string{write(t, "a", header), write(t, "b", header)}, Options{})
	if r.Files()[1].CopyOf != "" {
		t.Errorf("a header is a copy of another")
	}
}

func TestCountsBadLines(t *testing.T) {
	text := strings.Replace(lineAt(0, "0"), "2026", "1999", 1) + lineAt(1, "a") + "\r\n\n" + strings.Repeat("bad\n", 12) +
		`192.0.2.1 - - [05/Mar/2026:08:00:01] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n" +
		strings.Repeat("x", MaxLineBytes+100) + "\n" + strings.TrimSpace(lineAt(2, "b"))
	got, r := paths(t, []string{"-"}, Options{Stdin: strings.NewReader(text), Format: Combined})
	s := r.Stats()
	if got != "0 a b" || s.Lines() != 17 || s.Entries != 3 || s.Before2000 != 1 || s.Bad != 14 || len(s.First) != firstBad {
		t.Errorf("got %s, %+v", got, s)
	}
	if want := "-:5: " + errColumns.Error(); s.First[0].Error() != want {
		t.Errorf("got %q, want %q", s.First[0].Error(), want)
	}
}

func TestReasonsOfBadLines(t *testing.T) {
	good := map[Format]string{}
	for _, x := range examples {
		good[x.format] = x.text
	}
	good[Combined] = strings.TrimSpace(lineAt(1, "a"))
	for _, c := range []struct {
		format Format
		line   string
		want   error
	}{
		{Combined, `192.0.2.1 - - [05/Mar/2026:08:00:01] "GET / HTTP/1.1" 200 1 "-" "-"`, errNoZone},
		{Combined, `192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "cut`, errQuote},
		{Combined, `192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "a"b"`, errSpace},
		{Combined, `192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1`, problem("the line has the format common, and the file combined")},
		{Combined, `{"ts":1772697601,"remote_addr":"192.0.2.1"}`, problem("the line has the format nginx-json, and the file combined")},
		{Combined, `{"level": "info", "ts": 1772697601.5, "request": {"client_ip": "192.0.2.1", "method": "GET", "uri": "/", "headers": {"X": ["a"]}}, "status": 200}`,
			problem("the line has the format caddy, and the file combined")},
		{Combined, `192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200`, errColumns},
		{Combined, `192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" abc 1 "-" "-"`, errStatus},
		{Combined, "a\x00b", errBinary},
		{Combined, `192.0.2.1 - - [05/Mar/2026:08:00:01 +00192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`, errTime},
		{Common, `192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`, problem("the line has the format combined, and the file common")},
		{Common, `192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1 "x"`, errExtra},
		{NginxJSON, `{"time":"2026-03-05T08:00:01"}`, errNoZone},
		{NginxJSON, `{"status":200}`, errNoTime},
		{NginxJSON, `{"time":"2026-03-05T08:00:01Z","a":"b`, errCut},
		{NginxJSON, `{"time":"2026-03-05T08:00:01Z"} x`, errTrailing},
		{NginxJSON, `{"time":"2026-03-05T08:00:01Z",}`, problem("the object is not JSON at byte 31: invalid character ',' at start of value; quote the values in the format of the log")},
		{NginxJSON, `{"time":"2026-03-05T08:00:01Z","a":0.1, 0.2}`, problem("the object is not JSON at byte 41: object member name must be a string; quote the values in the format of the log")},
		{NginxJSON, `{"time":"2026-03-05T08:00:01Z","a":[{"b":1]}`, problem("the object is not JSON at byte 43: invalid character ']' after object value (expecting ',' or '}'); quote the values in the format of the log")},
		{NginxJSON, `plain`, errObject},
		{Caddy, `{"level":"info","ts":1772697601.5,"msg":"serving initial configuration"}`, errNoRequest},
		{CloudFront, "2019-12-04\t21:02:31", errW3C},
		{ALB, `http 2018-07-02T22:23:00.186641Z app/x`, errColumns},
		{Envoy, `2016-04-15T20:17:00.310Z "GET / HTTP/2"`, errBracket},
	} {
		_, r := paths(t, []string{"-"}, Options{Format: c.format, Stdin: strings.NewReader(c.line)})
		if s := r.Stats(); s.Bad != 1 || s.First[0].Reason != c.want.Error() {
			t.Errorf("%s, %q: got %+v, want %q", c.format, c.line, s, c.want)
		}
	}
}

// TestDamagedFilesAreReadToTheDamage: a file that is cut off, or damaged in the middle, has
// the lines before, and the next file is read.
func TestDamagedFilesAreReadToTheDamage(t *testing.T) {
	var text strings.Builder
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 20000 {
		text.WriteString(lineAt(i, fmt.Sprint(r.Uint64())))
	}
	for name, whole := range map[string][]byte{"gz": gzipped(text.String()), "zst": zstandard(t, text.String())} {
		cut, spoilt := whole[:len(whole)*2/3], slices.Clone(whole)
		for i := range 64 {
			spoilt[len(cut)+i] ^= byte(0x55 + i)
		}
		for _, b := range [][]byte{cut, spoilt} {
			_, reader := paths(t, []string{write(t, "log."+name, b), write(t, "whole", []byte(lineAt(90000, "z")))}, Options{})
			s := reader.Stats()
			if s.Entries < 1000 || s.Entries > 20000 || s.Bad == 0 || len(b) == len(cut) && s.First[len(s.First)-1].Reason != errTruncated.Error() {
				t.Errorf("%s: got %+v", name, s)
			}
		}
	}
}

func TestOpenNamesTheMistake(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		files []string
		o     Options
		want  string
	}{
		{[]string{filepath.Join(dir, "none")}, Options{}, "no such file"},
		{[]string{dir}, Options{}, "is a directory"},
		{[]string{"-", "-"}, Options{Stdin: strings.NewReader(lineAt(1, "a"))}, "given twice"},
		{[]string{"-"}, Options{Stdin: strings.NewReader("nonsense\n")}, "-: no format fits the first line"},
		{[]string{write(t, "access.log", []byte(lineAt(1, "a"))), "-"}, Options{Stdin: strings.NewReader(`{"at_us":1,"policy":"p"}`), WholeTraces: true}, "trace"},
		{[]string{write(t, "bin", []byte("\x7fELF\x00\x00\n"))}, Options{}, "binary"},
	} {
		if _, err := Open(c.files, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.files, err, c.want)
		}
	}
	if _, err := Open([]string{filepath.Join(dir, "none")}, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want an error that wraps os.ErrNotExist", err)
	}
}

// TestStandardInputIsReadAsItIsWritten uses a pipe whose writer waits for the entry.
func TestStandardInputIsReadAsItIsWritten(t *testing.T) {
	in, out := io.Pipe()
	go io.WriteString(out, lineAt(1, "a"))
	r, err := Open([]string{"-"}, Options{Stdin: in})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := r.next(); err != nil || e.Line != 1 {
		t.Errorf("got %v, %v", e, err)
	}
}

// TestFilesOfPzstdAreRead: each of their frames follows a skippable frame with its size.
func TestFilesOfPzstdAreRead(t *testing.T) {
	var b []byte
	for i := range 2 {
		frame := zstandard(t, strings.Repeat(lineAt(i, "a"), 100))
		b = append(b, 0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0)
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(frame))), frame...)
	}
	if _, r := paths(t, []string{write(t, "log.zst", b)}, Options{}); r.Stats().Entries != 200 || r.Stats().Bad != 0 {
		t.Errorf("got %+v, want 200 entries", r.Stats())
	}
}

// logOf returns a log of n lines: copies of an example that keep its instant.
func logOf(format Format, n int) []byte {
	for _, x := range examples {
		if x.format == format {
			at := strings.LastIndexByte(x.text, '\n') + 1
			return []byte(x.text[:at] + strings.Repeat(x.text[at:]+"\n", n))
		}
	}
	return nil
}

func TestAllocationsOfALine(t *testing.T) {
	fields := []Field{RemoteAddr, Method, Path, Status, UserAgent}
	for _, format := range formats {
		text := bytes.ReplaceAll(logOf(format, 3000), []byte("+0130"), []byte("+0100")) // time.Parse allocates other zones
		r, err := Open([]string{"-"}, Options{Format: format, Stdin: bytes.NewReader(text)})
		if err != nil {
			t.Fatal(err)
		}
		r.fields = fields
		next := func() {
			e, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range fields {
				e.Get(f)
			}
		}
		for range 500 {
			next()
		}
		want := 0.0
		if format == Caddy {
			want = 1 // the text of time.ParseDuration
		}
		if n := testing.AllocsPerRun(1000, next); n > want {
			t.Errorf("%s: %.2f allocations per line, want %v", format, n, want)
		}
	}
}

// longLines is an endless log of lines at one instant, with a user agent of 20,000 bytes.
type longLines struct{ strings.Reader }

func (l *longLines) Read(b []byte) (int, error) {
	if l.Len() == 0 {
		l.Reset(strings.Replace(lineAt(1, "a"), `"-"`+"\n", `"`+strings.Repeat("x", 20_000)+"\"\n", 1))
	}
	return l.Reader.Read(b)
}

// TestLinesThatWaitHaveABound: only the fields that are read are kept, and more than the
// bound of them is an error with the place of the line and the next step.
func TestLinesThatWaitHaveABound(t *testing.T) {
	for _, c := range []struct {
		field Field
		lines int64 // that fit in 256 KiB
	}{{Path, 1000}, {UserAgent, 10}} {
		r, err := Open([]string{"-"}, Options{Stdin: new(longLines), Reorder: DefaultReorder})
		if err != nil {
			t.Fatal(err)
		}
		r.room = 256 << 10
		for _, err = range r.Entries(c.field) {
		}
		place, problem, _ := strings.Cut(fmt.Sprint(err), ": ")
		if problem != "the lines that wait to be sorted take more than 128 MiB; use a shorter --reorder, or fields with shorter values" || place != fmt.Sprint("-:", r.stats.Lines()) {
			t.Errorf("%v: %v after %d lines", c.field, err, r.stats.Lines())
		}
		if n := r.stats.Lines(); n < c.lines || n > 2*c.lines {
			t.Errorf("%v: %d lines fit, want at least %d", c.field, n, c.lines)
		}
	}
}

// TestReversedLinesTakeFewSteps counts the comparisons of a log that runs backward.
func TestReversedLinesTakeFewSteps(t *testing.T) {
	const n = 20_000
	var text strings.Builder
	for i := range n {
		text.WriteString(lineAt(n-i, "a"))
	}
	r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(text.String()), Reorder: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	r.sources.first().waiting.late.compare = func(a, b *Entry) int {
		steps++
		return a.compare(b)
	}
	line := int64(n)
	for e, err := range r.Entries() {
		if err != nil || e.Line != line {
			t.Fatalf("line %d comes where line %d should: %v", e.Line, line, err)
		}
		line--
	}
	if most := n * 3 * 15; line != 0 || steps > most { // 2^15 > n
		t.Errorf("%d comparisons, want at most %d; %d lines are missing", steps, most, line)
	}
}

// TestReplacedFilesAreErrors: the format and the first instant of a file were those of the one
// that Open found.
func TestReplacedFilesAreErrors(t *testing.T) {
	first := write(t, "first", []byte(lineAt(0, "a")))
	second := write(t, "second", []byte(lineAt(100, "b")))
	replaced := func(o Options) *Reader {
		must.Do(t, os.WriteFile(second, []byte(lineAt(100, "b")), 0o666))
		r, err := Open([]string{first, second}, o)
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, os.Rename(second, second+".1"))
		must.Do(t, os.WriteFile(second, []byte(lineAt(100, "c")), 0o666))
		return r
	}
	const want = "was replaced while it was read; run again"
	var last error
	for _, err := range replaced(Options{}).Entries(Path) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), want) || !strings.Contains(last.Error(), second) {
		t.Errorf("entries: got %v, want %s %s", last, second, want)
	}
	if _, err := io.ReadAll(replaced(Options{}).Trace()); !errors.As(err, new(*os.PathError)) || !strings.Contains(err.Error(), want) {
		t.Errorf("trace: got %v, want %s", err, want)
	}
}
