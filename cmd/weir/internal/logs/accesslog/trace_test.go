package accesslog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

const trace = `{"trace":1,"sample":10,"keys":"hashed","dropped":0}
{"at_us":3000000,"policy":"search","key":{"ip":"b\"\u00e9"},"n":7}
{"at_us":1000000,"policy":"search","key":{"ip":"a","op":"peek"}}
{"at_us":2000000,"policy":"search","key":{"ip":"a"},"op": "record"}
{"at_us":2500000,"policy":"search","key":{"ip":"a"},"op":"check"}
{"trace":1,"sample":2,"keys":"hashed","dropped":7}
{"at_us":25`

// TestTracesAreRead: the attempts of a trace are entries, by time, with the dimensions of their
// keys and their units. A header that is damaged is a bad line.
func TestTracesAreRead(t *testing.T) {
	ip, _ := ParseField("key.ip")
	policy, _ := ParseField("policy")
	for text, bad := range map[string]int64{trace: 1, `{"trace":1,"sample":` + "\n" + trace: 2, `{"trace":1,"sample":10}` + "\n" + trace: 2, `{"trace":1,"sample":-1,"dropped":0}` + "\n" + trace: 2} {
		r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(text), Format: JSONL, Reorder: DefaultReorder})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for e, err := range r.Entries(ip, policy, Bytes) {
			must.Do(t, err)
			key, _ := e.Get(ip)
			n, _ := e.Get(Bytes)
			name, _ := e.Get(policy)
			got = append(got, fmt.Sprintf("%d %s %s %s", e.At, name, key, n))
		}
		if want := []string{"1000000 search a 1", "2500000 search a 1", "3000000 search b\"é 7"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		s := r.Stats()
		if s.Entries != 3 || s.Bad != bad || s.Sample != 10 || s.Dropped != 7 || bad > 1 && !strings.HasPrefix(s.First[0].Reason, "the header ") {
			t.Errorf("%+v, want %d bad lines, and a sample of 10 with 7 lost calls", s, bad)
		}
	}
	if r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(trace)}); err != nil || r.Files()[0].Format != JSONL {
		t.Errorf("the trace is no trace: %v", err)
	}
	files := []string{write(t, "access.log", []byte(lineAt(1, "a"))), "-"}
	if _, err := Open(files, Options{Stdin: strings.NewReader(trace), WholeTraces: true}); err == nil || !strings.Contains(err.Error(), "-: the file is a trace") {
		t.Errorf("a trace behind a log: %v", err)
	}
}

// TestHeadersAreReadAgain: a header that is written and parsed is the same, and every other
// text is an error.
func TestHeadersAreReadAgain(t *testing.T) {
	for _, want := range []TraceHeader{{1, 1, "plain", 0}, {1, 10, "hashed", weir.MaxUnits}} {
		line := want.AppendJSON(nil)
		if got, err := ParseTraceHeader(line); got != want || err != nil || !IsTraceHeader(line) {
			t.Errorf("%s is %+v, %v; want %+v", line, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"trace":1,"sample":10`:                                      "cut off or changed",
		`{"trace":1,"sample":10,"keys":"plain","dropped":0,"x":1}`:    "cut off or changed",
		`{"trace":1,"sample":10,"keys":"plain","dropped":0} {}`:       "cut off or changed",
		`{"trace":2,"sample":10,"keys":"plain","dropped":0}`:          "version 2",
		`{"trace":1,"sample":0,"keys":"plain","dropped":0}`:           "sample 0",
		`{"trace":1,"sample":1,"keys":"plain","dropped":-1}`:          "dropped -1",
		`{"trace":1,"sample":2251799813685248,"keys":"","dropped":0}`: "sample 2251799813685248",
	} {
		if _, err := ParseTraceHeader([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
