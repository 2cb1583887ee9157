package policy

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/txtar"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing with them")

// TestBadFiles: each file of the archives testdata/bad-*.txtar is rejected with the errors
// beside it.
func TestBadFiles(t *testing.T) {
	n := 0
	for _, archive := range archives(t, "testdata/bad-*.txtar") {
		for _, x := range archive.fixtures {
			n++
			f, err := Parse(x.name+".yaml", x.src)
			if f != nil || err == nil {
				t.Errorf("%s: read as %+v, want an error and nothing else", x.name, f)
				continue
			}
			checkError(t, x.name, err)
			archive.golden(t, x.name, err.Error()+"\n")
		}
	}
	if n < 240 {
		t.Errorf("%d bad files, want at least 240", n)
	}
}

// errorsIn returns the errors that Parse has joined, or the one of a single line.
func errorsIn(err error) (all []*Error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []*Error{err.(*Error)}
	}
	for _, each := range joined.Unwrap() {
		all = append(all, each.(*Error))
	}
	return all
}

// checkError: an error is complete, and its caret is below its column.
func checkError(t *testing.T, input string, err error) {
	t.Helper()
	all := errorsIn(err)
	if len(all) == 0 || len(all) > maxErrors {
		t.Errorf("%q: %d errors", input, len(all))
	}
	for i, e := range all {
		if e.Line < 1 || e.Column < 1 || e.Problem == "" || e.Next == "" {
			t.Errorf("%q: incomplete: %+v", input, e)
		}
		if i > 0 && (e.Line < all[i-1].Line || e.Line == all[i-1].Line && e.Column < all[i-1].Column) {
			t.Errorf("%q: line %d after line %d", input, e.Line, all[i-1].Line)
		}
		if n := len(e.Error()); n > 1500 {
			t.Errorf("%q: an error of %d bytes", input, n)
		}
		lines := strings.Split(e.Error(), "\n")
		if len(lines) != 3 || !strings.HasSuffix(lines[2], "^") {
			t.Fatalf("%q: want three lines, the last with a caret:\n%s", input, e)
		}
		source, caret := []rune(printable(e.Source)), len([]rune(lines[2]))-1
		if at := []rune(lines[1]); e.Column <= len(source) && (caret >= len(at) || at[caret] != source[e.Column-1]) {
			t.Errorf("%q: the caret is not below column %d:\n%s", input, e.Column, e)
		}
	}
}

// TestGoodFiles: each file of the archive testdata/good.txtar reads as the golden file beside
// it, and its limits survive being written as sentences.
func TestGoodFiles(t *testing.T) {
	for _, archive := range archives(t, "testdata/good.txtar") {
		for _, x := range archive.fixtures {
			f, err := Parse(x.name+".yaml", x.src)
			if err != nil {
				t.Errorf("%s: %v", x.name, err)
				continue
			}
			checkSentences(t, f)
			archive.golden(t, x.name, describe(f))
		}
	}
}

// lengthText returns the window of a limit, or the longest hold of a concurrency limit.
func lengthText(l weir.Limit) string {
	if l.Kind == weir.KindConcurrency {
		return fmt.Sprintf("max_hold=%v", l.MaxHold)
	}
	return fmt.Sprintf("window=%v", l.Window)
}

// describe writes all there is to a file.
func describe(f *File) string {
	var b strings.Builder
	for _, p := range f.Policies {
		fmt.Fprintf(&b, "%d %s mode=%v when-store-is-down=%v about=%q\n", p.Line, p.Name, p.Mode, storeDownValues[p.WhenStoreIsDown-1], p.About)
		if p.MaxWait != 0 {
			fmt.Fprintf(&b, "   max-wait=%v\n", p.MaxWait)
		}
		for i, l := range p.Limits {
			fmt.Fprintf(&b, "  %s: %s\n    max=%d unit=%q %s interval=%v by=%q cells=%d\n",
				l.Name, p.Sentence(i), l.Max, p.Units[i], lengthText(l), l.MinInterval, l.By, l.Cells)
			if l.Cost > 0 {
				fmt.Fprintf(&b, "    cost=%d\n", l.Cost)
			}
			if l.Kind != weir.KindRolling {
				fmt.Fprintf(&b, "    kind=%v%s\n", l.Kind, details(&l))
			}
			if block := l.Block; block > 0 {
				fmt.Fprintf(&b, "    block=%v\n", block)
			}
			if share := valueOf(p.WarnPercents, i); share > 0 {
				fmt.Fprintf(&b, "    warn=%d%%\n", share)
			}
		}
		describeVariations(&b, p)
	}
	for _, t := range f.Tests {
		fmt.Fprintf(&b, "%d test %q of %s from %s\n", t.Line, t.Name, t.Policy.Name, t.From.Format(time.RFC3339))
		for _, s := range t.Steps {
			expect, _ := json.Marshal(s.Expect)
			do := s.Do
			if s.Limit != "" {
				do += " " + s.Limit
			}
			fmt.Fprintf(&b, "  %d %v %v %v n=%d times=%d %s\n", s.Line, s.At, do, s.Key, s.N, s.Times, expect)
		}
	}
	return b.String()
}

// details writes the fields of some kinds.
func details(l *weir.Limit) (text string) {
	if l.Burst > 0 {
		text += fmt.Sprintf(" burst=%d", l.Burst)
	}
	if l.Period != weir.NoPeriod {
		text += fmt.Sprintf(" period=%v zone=%q anchor=%d", l.Period, l.Zone, l.Anchor)
	}
	return text
}

func describeVariations(b *strings.Builder, p *Definition) {
	if p.Addresses != nil {
		fmt.Fprintf(b, "  keys=%s\n", p.formsText())
	}
	if p.Shadow || p.Reported || p.PlanBy != "" {
		count := "attempts"
		if p.Reported {
			count = "reported"
		}
		fmt.Fprintf(b, "  shadow=%v count=%v plan-by=%q\n", p.Shadow, count, p.PlanBy)
	}
	numbers := func(changes []Change) {
		v := p.With(changes)
		for _, c := range changes {
			fmt.Fprintf(b, "    %s: %s\n", p.Limits[c.Limit].Name, v.Sentence(c.Limit))
		}
	}
	for _, plan := range p.Plans {
		fmt.Fprintf(b, "  %d plan %s\n", plan.Line, plan.Name)
		numbers(plan.Changes)
	}
	for _, o := range p.Overrides {
		fmt.Fprintf(b, "  %d override for %q plan=%q until=%v why=%q\n", o.Line, o.For, o.Plan, o.Until, o.Why)
		numbers(o.Changes)
	}
}

// parseLimit is ParseLimit with the parts of a file, and with the errors of a line in a file.
func parseLimit(line string) (d *limitBuilder, err error) {
	if f := catch(func() { d = parseAlone(line) }); f != nil {
		return nil, lineError(line, f)
	}
	return d, nil
}

// TestLimitLines: the golden file holds the limit or the error of each line.
func TestLimitLines(t *testing.T) {
	var b strings.Builder
	for line := range strings.Lines(string(readFile(t, "testdata/lines.txt"))) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			fmt.Fprintln(&b, line)
			continue
		}
		d, err := parseLimit(line)
		if err != nil {
			checkError(t, line, err)
			fmt.Fprintf(&b, "%s\n\n", err)
			continue
		}
		l, block := d.limit, ""
		if l.Block > 0 {
			block = fmt.Sprintf(" block=%v", l.Block)
		}
		if l.Kind != weir.KindRolling {
			block += fmt.Sprintf(" kind=%v", l.Kind) + details(&l)
		}
		fmt.Fprintf(&b, "%s\n= %s\n  max=%d unit=%q %s interval=%v by=%q%s\n\n", line, sentence(l, d.unit), l.Max, d.unit, lengthText(l), l.MinInterval, l.By, block)
	}
	golden(t, "testdata/lines.golden", []byte(b.String()))
}

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// fixture is a policy file of an archive.
type fixture struct {
	name string // without an ending
	src  []byte
}

// archive is a txtar file. It holds NAME.yaml and NAME.golden for each fixture. A policy file
// with bytes that an editor does not show is NAME.quoted, a Go string.
type archive struct {
	path     string
	text     *txtar.Archive
	fixtures []fixture
}

func archives(t testing.TB, pattern string) (all []archive) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
	}
	for _, path := range paths {
		a := archive{path: path, text: txtar.Parse(readFile(t, path))}
		for _, f := range a.text.Files {
			name, ending, _ := strings.Cut(f.Name, ".")
			switch ending {
			case "yaml":
				a.fixtures = append(a.fixtures, fixture{name, f.Data})
			case "quoted":
				src, err := strconv.Unquote(strings.TrimSpace(string(f.Data)))
				if err != nil {
					t.Fatalf("%s: %s: %v", path, f.Name, err)
				}
				a.fixtures = append(a.fixtures, fixture{name, []byte(src)})
			}
		}
		all = append(all, a)
	}
	return all
}

// golden compares got with the golden file of a fixture, or writes it into the archive.
func (a *archive) golden(t *testing.T, name, got string) {
	t.Helper()
	i := slices.IndexFunc(a.text.Files, func(f txtar.File) bool { return f.Name == name+".golden" })
	if i < 0 {
		t.Fatalf("%s: no %s.golden; add an empty one and run with -rewrite", a.path, name)
	}
	if want := &a.text.Files[i].Data; *rewrite {
		*want = []byte(got)
		write(t, a.path, txtar.Format(a.text))
	} else if got != string(*want) {
		t.Errorf("%s: %s: after reading the difference, run with -rewrite\ngot:\n%s\nwant:\n%s", a.path, name, got, *want)
	}
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(file, text, 0o644))
}

// golden compares got with the file, or writes it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *rewrite {
		write(t, file, got)
	} else if want := readFile(t, file); !bytes.Equal(got, want) {
		t.Errorf("%s: after reading the difference, run with -rewrite\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}
