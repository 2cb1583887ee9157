package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/internal/adversary"
)

// TestTimingsCatchABucket plays the adversary in virtual time, in which calls take no time
// and the numbers are exact.
func TestTimingsCatchABucket(t *testing.T) {
	for _, tc := range []struct {
		peer             string
		worst, polledFor int
	}{
		{peers.Weir, 20, 60},
		{"plain exact log", 20, 60},
		{"x/time/rate", 39, 79},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := peers.Named(tc.peer)
			if err != nil {
				t.Fatal(err)
			}
			s := alone([]peers.Peer{p}, limit, window, 2, time.Millisecond)[0]
			for i, got := range s.byTiming {
				if got != tc.worst {
					t.Errorf("%s, %s: %d in one window, want %d", tc.peer, adversary.Timings()[i].Name, got, tc.worst)
				}
			}
			if got := s.polledMedian(); got != tc.polledFor {
				t.Errorf("%s: %d granted in %d windows of polling, want %d", tc.peer, got, polled, tc.polledFor)
			}
		})
	}
}

func TestVerdictIsAboutWeir(t *testing.T) {
	weir, other := peers.Peer{Name: peers.Weir}, peers.Peer{Name: "other"}
	for _, tc := range []struct {
		name   string
		scores []*score
		bad    bool
	}{
		{"at the limit", []*score{{peer: weir, byTiming: []int{20}, together: 20, crowded: 100}, {peer: other, together: 40}}, false},
		{"one more, alone", []*score{{peer: weir, byTiming: []int{19, 21}}}, true},
		{"one more, together", []*score{{peer: weir, together: 21}}, true},
		{"one more, in the crowd", []*score{{peer: weir, crowded: 101}}, true},
	} {
		if err := verdict(tc.scores); (err != nil) != tc.bad {
			t.Errorf("%s: verdict = %v, want an error: %v", tc.name, err, tc.bad)
		}
	}
}

func TestPictureIsXMLAndShowsAllContestants(t *testing.T) {
	scores := []*score{
		{peer: peers.Peer{Name: "a <b> & c"}, together: 39},
		{peer: peers.Peer{Name: peers.Weir}, together: 20},
	}
	svg := picture(scores)
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("the picture is not XML: %v\n%s", err, svg)
		}
	}
	for _, want := range []string{">a &lt;b&gt; &amp; c<", ">weir<", ">39<", ">20<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if strings.Index(svg, ">weir<") > strings.Index(svg, ">a &lt;b") {
		t.Error("Weir is not drawn first")
	}
}
