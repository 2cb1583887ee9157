package policy

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// parseEdits are changes to fixtures, by their names, that fuzzing found: old, new, …
var parseEdits = map[string][][]string{
	"design":    {{"\n  transfers", "\r\n2 transfers", "\n", "\r\n", "two in", "two=in"}},
	"limits-17": {{"      l16", "  6  1l  "}, {"\n      l5: 5 p", "    55l\np   : "}},
	"long":      {{"limits", "lim)ts"}, {"0s", "0ames"}, {"user, 3s", "usAAAer, 3s"}},
	"sixteen":   {{"per k15", "pev k15"}},
	"unlimited": {
		{"window", "witdow"},
		{"unlimited per hour", "unlimitedtper hour", "long:", "lonBg:", "unlimited, window", "unlimi ed, window"},
	},
}

// seeds returns the texts of a file, in which each line is a Go string. Fuzzing found them.
func seeds(t testing.TB, file string) (all []string) {
	t.Helper()
	for line := range strings.Lines(string(readFile(t, file))) {
		text, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s: %s: %v", file, line, err)
		}
		all = append(all, text)
	}
	return all
}

// FuzzParse: a file is refused with an error that is whole, or every policy of it
// passes weir's own check, and every limit survives its sentence.
func FuzzParse(f *testing.F) {
	for _, archive := range archives(f, "testdata/*.txtar") {
		for _, x := range archive.fixtures {
			f.Add(x.src)
			for _, changes := range parseEdits[x.name] {
				f.Add([]byte(strings.NewReplacer(changes...).Replace(string(x.src))))
			}
		}
	}
	for _, src := range seeds(f, "testdata/file-seeds.txt") {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Parse("fuzz.yaml", src)
		if err != nil {
			checkError(t, string(src), err)
			return
		}
		checkSentences(t, file)
		if changes := Changes(file, file); len(changes) > 0 {
			t.Errorf("%q: changes to itself: %q", src, changes)
		}
		for _, p := range file.Policies {
			if _, err := p.Compile(); err != nil {
				t.Errorf("%q: %v", src, err)
			}
			for _, changes := range variations(p) {
				v, err := p.With(changes...).Compile()
				base, _ := p.Compile()
				if err != nil || !slices.Equal(v.Dimensions, base.Dimensions) {
					t.Errorf("%q: with %+v: %v", src, changes, err)
				}
			}
			if p.Line < 1 || len(p.Units) != len(p.Limits) || file.Definition(p.Name) != p {
				t.Errorf("%q: half a policy: %+v", src, p)
			}
		}
	})
}

// variations are the numbers that a policy may have: of every plan, and of every
// override without a plan and on its own.
func variations(p *Definition) [][][]Change {
	var all [][][]Change
	for _, plan := range p.Plans {
		all = append(all, [][]Change{plan.Changes})
	}
	for _, o := range p.Overrides {
		all = append(all, [][]Change{o.Changes})
		if i := slices.IndexFunc(p.Plans, func(t Plan) bool { return t.Name == o.Plan }); i >= 0 {
			all = append(all, [][]Change{p.Plans[i].Changes, o.Changes})
		}
	}
	return all
}

// FuzzLimit: a limit line is refused with an error that is whole, or says the same
// in its own sentence, and in a file.
func FuzzLimit(f *testing.F) {
	for line := range strings.Lines(string(readFile(f, "testdata/lines.txt"))) {
		f.Add(strings.TrimSuffix(line, "\n"))
	}
	for _, line := range seeds(f, "testdata/limit-seeds.txt") {
		f.Add(line)
	}
	f.Add(" " + strings.Repeat("0", 125))
	f.Add("5 per " + strings.Repeat("7", 1900) + "minute") // an error repeated the number, thousands of times
	f.Fuzz(func(t *testing.T, line string) {
		d, err := parseLimit(line)
		if err != nil {
			checkError(t, line, err)
			return
		}
		l, written := d.limit, sentence(d.limit, d.unit)
		same, err := parseLimit(written)
		if err != nil || !reflect.DeepEqual(same.limit, l) || same.unit != d.unit {
			t.Fatalf("%q: read as %+v; its sentence %q as %+v, %v", line, d, written, same, err)
		}
		parsed, _, err := ParseLimit(line)
		if again := sentence(parsed, d.unit); err != nil || again != written {
			t.Errorf("%q: its sentence is %q, and in Go %q, %v", line, written, again, err)
		}
		file, err := Parse("fuzz.yaml", []byte("version: 1\npolicies:\n  p:\n    limit: \""+strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(line)+"\"\n"))
		if err != nil {
			t.Fatalf("%q: a limit on its own, but not in a file: %v", line, err)
		}
		l.Name = "limit"
		if again := file.Policies[0]; !reflect.DeepEqual(again.Limits[0], l) {
			t.Errorf("%q: %+v on its own, %+v in a file", line, l, again)
		}
	})
}

// TestKeysCannotBeWindows: no key that a line takes could be a window, so that unlimited
// per day and unlimited per user are told apart.
func TestKeysCannotBeWindows(t *testing.T) {
	for _, w := range windows {
		for _, key := range []string{w.name, w.name + "s", "1s", "30m", "5ms", wordPer, wordApart} {
			if l, _, err := ParseLimit("1 per day per " + key); err == nil {
				t.Errorf("a key named %q: read as %+v", key, l)
			}
		}
	}
	for _, key := range []string{"days-off", "per-user", "m", "10", "1st", "30min", "unlimited"} {
		l, _, err := ParseLimit("unlimited per " + key)
		want := weir.Per(weir.MaxUnits, weir.MinWindow, key)
		if err != nil || !reflect.DeepEqual(l, want) {
			t.Errorf("a key named %q: got %+v, %v", key, l, err)
		}
	}
}
