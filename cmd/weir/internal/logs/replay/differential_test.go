package replay

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/jsontest"
	"github.com/weirlimit/weir/internal/testkit/race"
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
	`{"at_us":5,"policy":"p","key":{"a":"x"},"n":600,"id":"use","ttl_us":60000000}`,
	`{"at_us":5,"policy":"p","key":{"a":"x"},"n":600,"max_wait_us":30000000}`,
	`{"at_us":6,"policy":"p","key":{"a":"x"},"n":20,"op":"extend","id":"use"}`,
	`{"at_us":6,"policy":"p","key":{"a":"x"},"op":"extend","id":"use"}`,
	`{"at_us":7,"policy":"p","key":{"a":"x"},"n":0,"op":"settle","id":"use"}`,
	`{"at_us":8,"policy":"p","key":{"a":"x"},"op":"block","for_us":0}`,
	"\t{ \"at_us\" : 0 ,\r\n \"policy\":\"p\" , \"key\" : { } } ",
	`{"at_us":0,"policy":"p","key":{"b":"2","a":"1"}}`,
	`{"at_us":1,"policy":"p","op":"reset","last_us":5,"limit":"unused","granted_at_us":6}`,
	`{"\u0061t_us":1,"\u0070olicy":"\u0070","id":"a\u0000"}`,
	`{"at_us":1,"policy":"p","key":{"k":"a\u0000b\u00e9\uFFfd\u2028"}}`,
}

var words = strings.Fields(`"at_us":1 "n":1 "op":"check" "op":"count" at_us policy key n op limit last_us granted_at_us id "id":"x" "ttl_us":1 "for_us":1 ttl_us for_us "max_wait_us":1 max_wait_us settle extend block check refund`)

func TestParserAgreesWithEncodingJSON(t *testing.T) {
	p := new(parser)
	for _, line := range wholeLines {
		compareParsers(t, p, []byte(line))
		if _, err := parseLine([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	good, lines := 0, race.Fewer(30_000)
	for seed := range uint64(lines) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := jsontest.Mutate(r, wholeLines[r.IntN(len(wholeLines))], words...)
		compareParsers(t, p, b)
		if _, err := parseLine(b); err == nil {
			good++
		}
	}
	if good < lines/60 || good > lines/2 {
		t.Errorf("%d of %d mutated lines are good; the mutations no longer lie about the border", good, lines)
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

// opsOfTraces are the words of a trace for operations.
var opsOfTraces = map[string]engine.Op{
	"check":  engine.Attempt,
	"peek":   engine.Peek,
	"record": engine.Record,
	"refund": engine.Refund,
	"reset":  engine.Reset,
	"count":  engine.Count,
	"settle": engine.Settle,
	"extend": engine.Extend,
	"block":  engine.Block,
}

// reference reads a line with encoding/json, as the package comment defines it. Tests
// compare the hand-written parser with it.
func reference(b []byte) (line Line, err error) {
	defer jsontest.Recover(&err)
	line.N = 1
	seen := map[string]bool{}
	for _, m := range jsontest.Members(jsontest.Must(b)) {
		seen[m.Name] = true
		switch m.Name {
		case "at_us":
			line.At = jsontest.Number(m.Value, weir.MaxInstant)
		case "n":
			line.N = jsontest.Number(m.Value, weir.MaxUnits)
		case "last_us":
			line.Last = jsontest.Number(m.Value, weir.MaxInstant)
		case "granted_at_us":
			line.GrantedAt = jsontest.Number(m.Value, weir.MaxInstant)
		case "max_wait_us":
			line.MaxWait = jsontest.Number(m.Value, weir.MaxWindow.Microseconds())
		case "ttl_us":
			line.TTL = jsontest.Number(m.Value, weir.MaxWindow.Microseconds())
		case "for_us":
			line.For = jsontest.Number(m.Value, weir.MaxWindow.Microseconds())
		case "policy":
			line.Policy = jsontest.Text(m.Value)
		case "id":
			line.ID = jsontest.Text(m.Value)
			jsontest.Require(0 < len(line.ID) && len(line.ID) <= 128, "id")
		case "limit":
			line.Limit = jsontest.Text(m.Value)
		case "op":
			op, ok := opsOfTraces[jsontest.Text(m.Value)]
			jsontest.Require(ok, "op")
			line.Op = op
		case "key":
			for _, d := range jsontest.Members(m.Value) {
				line.Key = append(line.Key, enforce.Pair{Name: d.Name, Value: jsontest.Text(d.Value)})
			}
			jsontest.Require(len(line.Key) <= 16, "dimensions")
		default:
			jsontest.Require(false, "unknown field")
		}
	}
	if line.Op == engine.Extend && !seen["n"] {
		line.N = 0
	}
	jsontest.Require(seen["at_us"] && seen["policy"], "missing")
	jsontest.Require(line.Op != engine.Refund || seen["granted_at_us"], "missing of refund")
	jsontest.Require(line.Op != engine.Count || seen["last_us"] && seen["limit"], "missing of count")
	jsontest.Require(line.Op != engine.Settle || seen["n"], "missing of settle")
	jsontest.Require(line.Op != engine.Settle && line.Op != engine.Extend || seen["id"], "missing reservation")
	jsontest.Require(line.Op != engine.Block || seen["for_us"], "missing of block")
	jsontest.Require(line.MaxWait == 0 || line.Op == engine.Attempt, "waits for nothing")
	jsontest.Require(line.TTL == 0 || line.Op == engine.Attempt && seen["id"], "reserves nothing")
	return line, nil
}

// TestWrittenLinesAreReadAgain: a line that is written and parsed is the same, with any
// bytes in its strings.
func TestWrittenLinesAreReadAgain(t *testing.T) {
	p := new(parser)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		text := func() string {
			b := make([]byte, r.IntN(12)+1)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return strings.ToValidUTF8(string(b), "é")
		}
		want := Line{At: r.Int64N(weir.MaxInstant), Policy: text(), N: r.Int64N(3), Op: engine.Op(r.IntN(len(opNames)))}
		for i := range r.IntN(4) {
			want.Key = append(want.Key, enforce.Pair{Name: text() + string(rune('a'+i)), Value: text()})
		}
		switch want.Op {
		case engine.Count:
			want.Limit, want.Last = text(), r.Int64N(9)
		case engine.Refund:
			want.GrantedAt, want.ID = r.Int64N(weir.MaxInstant), text()
		case engine.Attempt:
			want.ID, want.TTL = text(), r.Int64N(2)
			want.MaxWait = r.Int64N(2)
		case engine.Settle, engine.Extend:
			want.ID = text()
		case engine.Block:
			want.Limit, want.For = text(), r.Int64N(9)
		}
		written := want.AppendJSON(nil)
		var got Line
		if err := p.parse(written[:len(written)-1], &got); err != nil {
			t.Fatalf("seed %d: %s%v", seed, written, err)
		}
		if !sameLine(got, want) {
			t.Fatalf("seed %d: %s is %+v, want %+v", seed, written, got, want)
		}
	}
}
