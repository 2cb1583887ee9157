package strictjson

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/race"
)

// traced returns a record of everything that r reads of the text of begin, and the error.
func traced(r *Reader) (record string, err error) {
	var b strings.Builder
	var member func(name []byte) error
	var value func() error
	value = func() (err error) {
		switch r.peekKind() {
		case '{':
			b.WriteString("{")
			err = r.Object("want", member)
			b.WriteString("}")
		case '[':
			b.WriteString("[")
			err = r.Array("want", value)
			b.WriteString("]")
		case '"':
			var text []byte
			text, err = r.Text("want")
			fmt.Fprintf(&b, "%q", text)
		default: // also what is no value, or none that is allowed
			var n int64
			n, err = r.Number("want")
			fmt.Fprint(&b, n)
		}
		fmt.Fprintf(&b, "@%d ", r.last)
		return err
	}
	member = func(name []byte) error {
		fmt.Fprintf(&b, "%q@%d:", name, r.last)
		if string(name) == "bad" {
			return r.Fault("bad")
		}
		return value()
	}
	err = r.readText("want", "more", member)
	return b.String(), err
}

// traceLine is a line of a trace, as a program writes it.
const traceLine = `{"at_us":1790000000000000,"policy":"push","key":{"teacher":"42"},"n":1,"op":"check"}`

// TestPlainTextsAreReadAlike compares the reading of texts with that of jsontext alone: all values,
// all places, and all mistakes.
func TestPlainTextsAreReadAlike(t *testing.T) {
	const line = `{"at_us":1790000000000000,"policy":"push","key":{"teacher":"42","b":""},` +
		` "n" : 1 ,"tags":["a",[],{}],"o":{},"m":-7,"op":"check"}`
	const bytes = `{}[]":, 0-1a\.t` + "\n\x00é"
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var fast, general Reader
	plain, texts := 0, race.Fewer(100_000)
	for i := range texts {
		text := []byte(line)
		for range i % 4 {
			at := random.IntN(len(text))
			switch random.IntN(3) {
			case 0:
				text[at] = bytes[random.IntN(len(bytes))]
			case 1:
				text = append(text[:at], text[at+1:]...)
			case 2:
				from := random.IntN(at + 1)
				text = append(text[:at:at], text[from:]...)
			}
		}
		fast.begin(text)
		got, gotErr := traced(&fast)
		general.begin(text)
		general.leavePlain()
		want, wantErr := traced(&general)
		if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("seed %d: %s\ngot  %s %v\nwant %s %v", seed, text, got, gotErr, want, wantErr)
		}
		if fast.isPlain {
			plain++
		}
	}
	if plain < texts/4 {
		t.Errorf("%d texts are plain, want at least those that are unchanged", plain)
	}
}

// TestPlainTextsStayPlain proves that the texts of the benchmark and of most calls are read without
// jsontext.
func TestPlainTextsStayPlain(t *testing.T) {
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":1,`, i)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	for text, want := range map[string]bool{
		traceLine:                             true,
		`{}`:                                  true,
		" {\t\"a\" : [ 1 , -20 , 0 ] } \r\n":  true,
		`{"a":{"a":1},"b":[{"a":1},{"a":1}]}`: true,
		names(32):                             true,
		names(33):                             false, // each name is compared with all before it
		`{"a":1.5}`:                           false,
		`{"a":"\n"}`:                          false,
		`{"a":"é"}`:                           false,
		`{"a":1,"a":1}`:                       false,
	} {
		var r Reader
		r.begin([]byte(text))
		traced(&r)
		if r.isPlain != want {
			t.Errorf("%s is plain: %v, want %v", text, r.isPlain, want)
		}
	}
}

// BenchmarkRead measures the reason why plain texts have a way of their own.
func BenchmarkRead(b *testing.B) {
	text := []byte(traceLine)
	var r Reader
	var member func(name []byte) error
	member = func(name []byte) (err error) {
		switch r.peekKind() {
		case '{':
			return r.Object("want", member)
		case '"':
			_, err = r.Text("want")
		default:
			_, err = r.Number("want")
		}
		return err
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if err := r.Read(text, "want", "more", member); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("general", func(b *testing.B) {
		for b.Loop() {
			r.begin(text)
			r.leavePlain()
			if err := r.readText("want", "more", member); err != nil {
				b.Fatal(err)
			}
		}
	})
}
