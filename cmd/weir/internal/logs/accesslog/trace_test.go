package accesslog

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

const trace = `{"trace":1,"sample":10,"keys":"hashed","dropped":0}
{"at_us":3000000,"policy":"search","key":{"ip":"b\"\u00e9"},"n":7}
{"at_us":1000000,"policy":"search","key":{"ip":"a","op":"peek"}}
{"at_us":2000000,"policy":"search","key":{"ip":"a"},"op": "record"}
{"at_us":2500000,"policy":"search","key":{"ip":"a"},"op":"check"}
{"trace":1,"sample":2,"keys":"hashed","dropped":7}
{"at_us":25`

// TestTracesAreRead: with Options.Traces the attempts of a trace are entries, by time, with
// the dimensions of their keys and their units.
func TestTracesAreRead(t *testing.T) {
	ip, _ := ParseField("key.ip")
	policy, _ := ParseField("policy")
	for _, format := range []Format{Auto, JSONL} {
		r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(trace), Traces: true, Format: format})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for e, err := range r.Entries(ip, policy, Bytes) {
			if err != nil {
				t.Fatal(err)
			}
			key, _ := e.Get(ip)
			n, _ := e.Get(Bytes)
			name, _ := e.Get(policy)
			got = append(got, strings.Join([]string{string(name), string(key), string(n)}, " "))
			if want := []int64{1_000_000, 2_500_000, 3_000_000}[len(got)-1]; e.At != want {
				t.Errorf("entry %d is at %d, want %d", len(got), e.At, want)
			}
		}
		if want := []string{"search a 1", "search a 1", "search b\"é 7"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if s := r.Stats(); s.Entries != 3 || s.Bad != 1 || s.Sample != 10 || s.Dropped != 7 {
			t.Errorf("%+v, want one bad line, and a sample of 10 with 7 lost calls", s)
		}
	}
	for _, header := range []string{`{"trace":1,"sample":`, `{"trace":1,"sample":10}`, `{"trace":1,"sample":-1,"dropped":0}`} {
		r, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(header + "\n" + trace), Traces: true, Format: JSONL})
		if err != nil {
			t.Fatal(err)
		}
		for range r.Entries() {
		}
		if s := r.Stats(); s.Bad != 2 || !strings.HasPrefix(s.First[0].Reason, "the header ") {
			t.Errorf("%s: %+v, want a bad header", header, s)
		}
	}
	if _, err := Open([]string{"-"}, Options{Stdin: strings.NewReader(trace)}); err == nil || !strings.Contains(err.Error(), "is a trace") {
		t.Errorf("without Traces: %v", err)
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
