package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

const goodVector = `# R3: An entry counts for exactly one window.
epoch 1600000000000000
policy p mode=partial
limit a max=2 window=10m interval=1s cells=5 by=user,ip
limit y max=9 window=1h kind=fixed_from_first by=user
limit z max=9 window=1h interval=2s kind=fixed
limit b max=3 window=5m
# A comment in front of a step.
@0s             take 1 user=u ip="\x00 -> x"        -> allowed granted=1 remaining=1 wait=0s reset=10m
  a: used=1 remaining=1 wait=0s next=10m interval=0s reset=10m
  b: used=1 remaining=2 wait=0s next=5m interval=0s reset=5m
change a max=9 interval=0s
@-1.5s          peek 2 user="" ip="x"*1000          -> denied granted=0 remaining=-1 wait=never reset=1us limit=a at=0s
@1h             refund 1 from=3s user=u ip=1        -> refunded=1
@1h             count b last=1us user=u ip=1        -> count=0
@1h             reset user=u ip=1                   -> done
@1h             record 2251799813685248 user=u ip=1 -> error=units
`

func TestParseWritesWhatItRead(t *testing.T) {
	vectors, err := parseVectors("good.txt", goodVector+"\n\n\n"+goodVector)
	if err != nil || len(vectors) != 2 {
		t.Fatalf("got %d vectors, %v, want 2", len(vectors), err)
	}
	if vectors[1].line != 21 {
		t.Errorf("the second vector: got line %d, want 21", vectors[1].line)
	}
	for _, v := range vectors {
		if got := v.text(); got != goodVector {
			t.Errorf("got\n%s\nwant\n%s", got, goodVector)
		}
	}
}

func TestParseRejectsUnknownWords(t *testing.T) {
	const head = "# R1: x\nlimit a max=1 window=1s\n"
	for _, test := range []struct{ text, want string }{
		{"limit a max=1 window=1s\n@0s take 1 -> done", "f:1: a vector begins with a comment that names its rule"},
		{"# R0: x\n", "f:1: a vector begins with a comment"},
		{"# R100: x\n", "f:1: a vector begins with a comment"},
		{"# R1: x\n", "f:1: a vector without steps"},
		{head, "f:1: a vector without steps"},
		{"# R1: x\n@0s take 1 -> error=key", "f:2: a step before any limit"},
		{"# R1: x\nlimit max=1 window=1s", "f:2: a limit begins with its name"},
		{"# R1: x\nlimit a max=1 window=1s\nlimit a max=1 window=1s", `f:3: the limit's name "a" is taken`},
		{"# R1: x\nlimit a max=1 windows=1s", `f:2: unknown word "windows=1s"`},
		{"# R1: x\nlimit a max=one window=1s", "f:2: strconv.ParseInt"},
		{"# R1: x\nlimit a max=-1 window=1s\n@0s take 1 -> done", "Max"},
		{"# R1: x\npolicy p mode=nary\n", `f:2: "mode=nary" is not a mode`},
		{"# R1: x\npolicy p mode=all x\n", `f:2: too few or too many words after "policy"`},
		{"# R1: x\npolicy p\nlimit a max=1 window=1s\npolicy q\n@0s take 1 -> error=key", "Limits"},
		{head + "allow 1", `f:3: unknown word "allow"`},
		{head + "@0s allow 1 -> done", `f:3: unknown word "allow"`},
		{head + "@0s take 1", "f:3: no answer"},
		{head + "@0s take 1 ->", "f:3: no answer"},
		{head + "@0s -> done", "f:3: no operation"},
		{head + "@0 take one -> done", `f:3: strconv.ParseInt: parsing "one"`},
		{head + "@now take 1 -> done", "f:3: time: invalid duration"},
		{head + "@0s take 1 u -> done", `f:3: unknown word "u"`},
		{head + "@0s take 1 u= -> done", "f:3: u=: quote the value"},
		{head + "@0s take 1 u=a,b -> done", "f:3: u=a,b: quote the value"},
		{head + `@0s take 1 u="a -> done`, "f:3: no end to the quote"},
		{head + `@0s take 1 u="a"*x -> done`, "f:3: u=\"a\"*x: after the quote"},
		{head + "@0s refund 1 -> refunded=1", "f:3: \"\" where from= belongs"},
		{head + "@0s count a last=x -> count=1", "f:3: time: invalid duration"},
		{head + "@0s reset -> gone", "f:3: [\"gone\"]; the answer to a reset is done"},
		{head + "@0s take 1 -> granted", `f:3: unknown word "granted"`},
		{head + "@0s take 1 -> allowed granted=1 remaining=1 wait=0s", "f:3: \"\" where reset= belongs"},
		{head + "@0s take 1 -> allowed granted=1 wait=0s remaining=1 reset=0s", `f:3: "wait=0s" where remaining= belongs`},
		{head + "@0s take 1 -> allowed granted=1 remaining=1 wait=0s reset=never", "f:3: time: invalid duration"},
		{head + "@0s take 1 -> allowed granted=1 remaining=1 wait=0s reset=0s why=x", `f:3: unknown word "why=x"`},
		{head + "@0s take 1 -> error=broken", `f:3: unknown error "broken"`},
		{head + "@0s reset -> done\n  a: used=0", "f:4: the state of a limit belongs after take"},
		{head + "@0s take 1 -> error=key\n  a used=0", "f:4: unknown word \"a\""},
		{head + "@0s take 1 -> error=key\nlimit b max=1 window=1s", "f:4: limit after the first step; use change"},
		{head + "@0s take 1 -> error=key\n# end", "f:1: a comment after the last step"},
		{head + "change", "f:3: a change needs"},
		{head + "change b max=1", `f:3: no limit is named "b"`},
		{head + "change order b", `f:3: no limit is named "b"`},
		{head + "change order", "Limits"},
		{head + "change a interval=2s", "MinInterval"},
		{head + "use q", "f:3: use [\"q\"]: no policy has that name"},
	} {
		_, err := parseVectors("f", test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%q: got %v, want an error with %q", test.text, err, test.want)
		}
	}
}

// FuzzParse: the parser does not panic, and the text of an accepted vector parses to the
// same vector.
func FuzzParse(f *testing.F) {
	f.Add(goodVector)
	files := must.Get(os.ReadDir(vectorDir))(f)
	for _, file := range files {
		text := must.Get(os.ReadFile(filepath.Join(vectorDir, file.Name())))(f)
		for _, vector := range strings.Split(string(text), "\n\n") {
			f.Add(vector)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		vectors, err := parseVectors("f", text)
		if err != nil {
			return
		}
		once := formatted(vectors)
		again, err := parseVectors("f", once)
		if err != nil {
			t.Fatalf("cannot read what was written: %v\n%s", err, once)
		}
		if twice := formatted(again); twice != once {
			t.Fatalf("written once\n%s\nwritten twice\n%s", once, twice)
		}
	})
}
