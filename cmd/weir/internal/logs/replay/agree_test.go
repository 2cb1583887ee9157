package replay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestEnginesAgree: the same bytes come out of the memory engine, of Redis and of the
// specification, for a trace of every op and mode whose instants jump about.
func TestEnginesAgree(t *testing.T) {
	trace := randomTrace(rand.New(rand.NewPCG(1, 2)), 4000)
	onRedis, _ := enginetest.On(t, redistest.Start(t).Addr)
	answers := func(e engine.Engine) string {
		r, err := New(fileOf(append(policyOfEachMode(), policies...)), e)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if _, err := r.Run(strings.NewReader(trace), &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := strings.Split(strings.TrimSuffix(answers(spec.New()), "\n"), "\n")
	for _, e := range []engine.Engine{weir.NewMemory(), onRedis} {
		compareLines(t, strings.Split(trace, "\n"), answers(e), want)
	}
}

func policyOfEachMode() []weir.Policy {
	limits := []weir.Limit{
		{Name: "few", Max: 3, Window: 20 * time.Millisecond, MinInterval: 2 * time.Millisecond, By: []string{"k"}},
		{Name: "cells", Max: 7, Window: 50 * time.Millisecond, Cells: 6, By: []string{"k", "other"}},
		{Name: "all", Max: 40, Window: time.Hour},
	}
	return []weir.Policy{
		{Name: "whole", Limits: limits},
		{Name: "part", Mode: weir.Partial, Limits: limits[:2]},
		{Name: "denied", Mode: weir.CountDenied, Limits: limits[:2]},
	}
}

func randomTrace(r *rand.Rand, lines int) string {
	var b strings.Builder
	at := int64(1_000_000)
	for range lines {
		at += r.Int64N(5000) - 500
		if r.IntN(100) == 0 {
			at = max(0, at-r.Int64N(2_000_000))
		}
		policy := []string{"whole", "part", "denied", "none"}[min(3, r.IntN(100)/33)]
		op := engine.Op(max(0, r.IntN(12)-6))
		fmt.Fprintf(&b, `{"at_us":%d,"policy":%q,"key":{"k":"\u0000%d}","other":"%d"},"n":%d,"op":%q`, at, policy, r.IntN(3), r.IntN(2), r.Int64N(5), opNames[op])
		switch op {
		case engine.Count:
			fmt.Fprintf(&b, `,"limit":%q,"last_us":%d`, []string{"few", "cells"}[r.IntN(2)], r.Int64N(50_000))
		case engine.Refund:
			fmt.Fprintf(&b, `,"granted_at_us":%d`, at-r.Int64N(4)*1000)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// Each line that is not blank has one line of JSON as its answer, for any input.
func FuzzRun(f *testing.F) {
	f.Add([]byte(strings.Join(wholeLines, "\n")))
	f.Add([]byte(randomTrace(rand.New(rand.NewPCG(3, 4)), 20)))
	f.Add([]byte("\n \r\n\t\n{}\n\xff\n" + `{"at_us":1,"policy":"push","key":{"teacher":"42"}}`))
	f.Fuzz(func(t *testing.T, trace []byte) {
		var out strings.Builder
		summary, err := newRunner(t, spec.New()).Run(strings.NewReader(string(trace)), &out)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for line := range strings.SplitSeq(string(trace), "\n") {
			// A longer line is an error, also if it is blank.
			if strings.Trim(line, " \t\r") != "" || len(strings.TrimSuffix(line, "\r")) > MaxLineBytes {
				want++
			}
		}
		if got := strings.Count(out.String(), "\n"); got != want || summary.Lines != int64(want) ||
			summary.Lines != summary.Allowed+summary.Denied+summary.Other+summary.Errors {
			t.Errorf("got %d answers and %+v, want %d", got, summary, want)
		}
		for answer := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if answer != "" && !json.Valid([]byte(answer)) {
				t.Errorf("not JSON: %q", answer)
			}
		}
	})
}
