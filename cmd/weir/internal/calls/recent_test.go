package calls

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/enforce"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// denials returns the denials of all steps that have some, by the age of the step.
func denials(r *Recent) map[int]int64 {
	found := map[int]int64{}
	for i, c := range slices.Backward(r.Steps) {
		if c.Denied != 0 {
			found[Steps-1-i] = c.Denied
		}
	}
	return found
}

// TestRecentCountsByStep: calls belong to the step in which they came, also where the sample is a
// little late, and leave after fifteen minutes.
func TestRecentCountsByStep(t *testing.T) {
	r := new(recent)
	r.begin(noon.UnixMicro(), noon.UnixMicro())
	at := func(seconds float64, denied int64) {
		r.add(noon.Add(time.Duration(seconds*float64(time.Second))).UnixMicro(), Counts{Denied: denied})
	}
	check := func(what string, want map[int]int64) {
		t.Helper()
		p := &Rule{counts: &counts{recent: *r}}
		got := new(Sampler).Recent(p)
		found := denials(got)
		var sum int64
		for age, n := range want {
			sum += n
			if found[age] != n {
				t.Errorf("%s: %d denials %d steps ago, want %d", what, found[age], age, n)
			}
		}
		if len(found) != len(want) || got.Sum.Denied != sum || len(got.Steps) != Steps {
			t.Errorf("%s: %v, in total %d, in %d steps; want %v", what, found, got.Sum.Denied, len(got.Steps), want)
		}
	}
	at(2, 3)
	check("in the first step", map[int]int64{0: 3})
	at(5.01, 4) // the step is over, and its sample is late
	check("after it", map[int]int64{1: 4})
	at(10, 4)
	at(15, 9)
	check("two steps later", map[int]int64{3: 4, 1: 5})
	at(14.9, 10) // a clock set back a little
	check("a small step back", map[int]int64{3: 4, 1: 6})
	at(899.9, 10)
	check("at the end", map[int]int64{179: 4, 177: 6})
	at(906, 10)
	check("two steps later", map[int]int64{179: 6})
	at(3600, 11)
	check("a long pause", map[int]int64{0: 1})
	at(-3600, 12)
	check("another clock", map[int]int64{0: 1})
}

// TestPoliciesWithRecentCountsAreBounded: further policies than maxRecent have totals only.
func TestPoliciesWithRecentCountsAreBounded(t *testing.T) {
	var rules []*enforce.Rule
	for range maxRecent + 10 {
		p := &Rule{counts: new(counts)}
		p.waiting.Add(2)
		rules = append(rules, &enforce.Rule{Handle: p})
	}
	idle := &enforce.Rule{Handle: &Rule{counts: new(counts)}}
	s := new(Sampler)
	s.Sample(append(rules, idle), noon)
	with := 0
	for _, r := range rules {
		if got := s.Recent(Of(r)); got != nil {
			with++
			if got.Sum.Waiting != 2 {
				t.Errorf("%d waiting calls, want 2", got.Sum.Waiting)
			}
		}
	}
	if with != maxRecent || s.Recent(Of(idle)) != nil {
		t.Errorf("%d policies have recent counts, want %d and not the one without calls", with, maxRecent)
	}
	// A place that becomes free is taken, from then on.
	late := rules[len(rules)-1]
	Of(late).waiting.Add(1)
	s.Sample([]*enforce.Rule{late}, noon.Add(StepTime))
	Of(late).waiting.Add(4)
	s.Sample([]*enforce.Rule{late}, noon.Add(2*StepTime))
	if got := s.Recent(Of(late)); got == nil || got.Sum.Waiting != 4 {
		t.Errorf("the policy that came late has %+v, want 4 waiting calls", got)
	}
}
