package replay

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/jsontest"
)

// compareParsers holds a line read by p, and by a fresh parser, to the reference.
func compareParsers(t *testing.T, p *parser, b []byte) {
	t.Helper()
	want, wantErr := reference(b)
	got, err := parseLine(b)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q\ngot  %+v, %v\nwant %+v, %v", b, got, err, want, wantErr)
	}
	var again Line
	if p.parse(b, &again); !sameLine(again, got) {
		t.Fatalf("%q\nthe parser that has read lines before: %+v\na fresh one: %+v", b, again, got)
	}
	if err == nil && !sameLine(got, want) {
		t.Fatalf("%q\ngot  %+v\nwant %+v", b, got, want)
	}
	if err != nil && !isLineError(err) {
		t.Fatalf("%q: got the error %v of type %T, which would end the replay", b, err, err)
	}
}

func sameLine(a, b Line) bool {
	a.given, b.given = 0, 0
	if len(a.Key) == 0 && len(b.Key) == 0 {
		a.Key, b.Key = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// wholeLines are good lines of every op; mutations write words into them.
var wholeLines = []string{
	`{"at_us":1000000,"policy":"push","key":{"teacher":"42"},"n":1,"op":"check"}`,
	`{"at_us":1000000,"policy":"push","key":{"teacher":"42"}}`,
	`{"policy":"slack","at_us":0}`,
	`{"at_us":9007199254740991,"policy":"p","key":{},"n":2251799813685247,"op":"record"}`,
	`{"at_us":5,"policy":"p","key":{"a":"","b":"\u0000\ud83d\ude00\\\"/"},"op":"peek","n":0}`,
	`{"at_us":5,"policy":"p","key":{"a":"x"},"op":"refund","granted_at_us":4,"n":2,"id":"job-42"}`,
	`{"at_us":5,"policy":"p","key":{"a":"x"},"op":"count","limit":"l","last_us":60000000}`,
	`{"at_us":5,"policy":"p","key":{"a":"x"},"op":"reset"}`,
	"\t{ \"at_us\" : 0 ,\r\n \"policy\":\"p\" , \"key\" : { } } ",
	`{"at_us":0,"policy":"p","key":{"b":"2","a":"1"}}`,
	`{"at_us":1,"policy":"p","op":"reset","last_us":5,"limit":"unused","granted_at_us":6}`,
	`{"\u0061t_us":1,"\u0070olicy":"\u0070","id":"a\u0000"}`,
	`{"at_us":1,"policy":"p","key":{"k":"a\u0000b\u00e9\uFFfd\u2028"}}`,
}

var words = strings.Fields(`"at_us":1 "n":1 "op":"check" "op":"count" at_us policy key n op limit last_us granted_at_us id "id":"x" check refund`)

func TestParserAgreesWithEncodingJSON(t *testing.T) {
	p := new(parser)
	for _, line := range wholeLines {
		compareParsers(t, p, []byte(line))
		if _, err := parseLine([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	good := 0
	for seed := range uint64(30_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := jsontest.Mutate(r, wholeLines[r.IntN(len(wholeLines))], words...)
		compareParsers(t, p, b)
		if _, err := parseLine(b); err == nil {
			good++
		}
	}
	if good < 500 || good > 15_000 {
		t.Errorf("%d of 30000 mutated lines are good; the mutations no longer lie about the border", good)
	}
}

// FuzzLine looks for a line that the parser and encoding/json read differently.
func FuzzLine(f *testing.F) {
	for _, line := range wholeLines {
		f.Add([]byte(line))
	}
	p := new(parser)
	f.Fuzz(func(t *testing.T, b []byte) {
		compareParsers(t, p, b)
	})
}
