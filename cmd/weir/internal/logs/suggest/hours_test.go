package suggest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// nightLog is a day of 40 people, each with 60 requests in the afternoon, and a night in which 20
// others send two requests each hour, as from 23:00 on. At 03:00 and 04:00 one more client sends 50 requests an hour,
// as irregularly as a person, with a user agent of its own or none.
func nightLog(agent string) string {
	const day = int64(1772582400) * second
	var log strings.Builder
	request := func(at int64, client string) {
		agentMember := ""
		if agent != "" {
			agentMember = fmt.Sprintf(`,"http_user_agent":%q`, agent)
		}
		fmt.Fprintf(&log, `{"ts":"%s","remote_addr":%q,"status":200%s}`+"\n",
			time.UnixMicro(at).UTC().Format(time.RFC3339Nano), client, agentMember)
	}
	for i := range int64(40) {
		for j := range int64(60) {
			request(day+14*hour+i*minute+j*j*second, fmt.Sprintf("198.51.100.%d", i))
		}
	}
	for _, h := range []int64{0, 1, 2, 3, 4, 5, 23} {
		for i := range int64(20) {
			for j := range int64(2) {
				request(day+h*hour+i*minute+j*9*second, fmt.Sprintf("192.0.2.%d", i))
			}
		}
	}
	for j := range int64(100) {
		request(day+3*hour+j*72*second+j*j%7*9*second, "203.0.113.77")
	}
	return log.String()
}

// TestFarAboveTheOthersOfItsHour: a client with 100 requests in a day is not far above people with
// 60. In the hours of the night in which it sends them others have two.
func TestFarAboveTheOthersOfItsHour(t *testing.T) {
	o := Options{Windows: []time.Duration{time.Minute, time.Hour, 24 * time.Hour}}
	r, err := run(t, nightLog("curl/8"), o)
	must.Do(t, err)
	const text = "ip=203.0.113.77 is far above the others of the same hour " +
		"with 50 requests from 2026-03-04 03:00, where 20 others have at most 2"
	if len(r.Advice) != 1 || r.Advice[0].Rule != Hour || r.Advice[0].Text != text {
		t.Errorf("got %+v, want %s", r.Advice, text)
	}
	best := &r.Windows[r.Best]
	s := &best.Suggested
	isStopped := s.KeysDenied == 1 && best.Top[0].Class == Hour
	if s.Basis != Gap || s.Certainty != Likely || !isStopped {
		t.Errorf("per %v: %+v, top %+v", best.Window, s, best.Top)
	}
}

// TestAnHourNeedsManyKeysAndFewAbove: the keys far above all others of an hour are at most a quarter
// of them, and at least ten others are there.
func TestAnHourNeedsManyKeysAndFewAbove(t *testing.T) {
	for _, c := range []struct {
		heavy, others int
		requests      uint32 // of each heavy key; the others have 2
		want          int
	}{
		{1, 10, 16, 1},
		{1, 10, 15, 0}, // less than 8 times as many
		{1, 9, 16, 0},  // too few others
		{3, 10, 16, 3},
		{4, 11, 16, 0}, // more than a quarter
		{7, 100, 16, 7},
		{8, 100, 16, 0}, // more than are recorded
	} {
		var h hourOfLog
		for i := range c.others {
			h.add(inHour{key: uint32(i), requests: 2})
		}
		for i := range c.heavy {
			h.add(inHour{key: uint32(1000 + i), requests: c.requests})
		}
		if above, _ := h.above(); len(above) != c.want {
			t.Errorf("%d keys with %d requests beside %d with 2: %d are above, want %d",
				c.heavy, c.requests, c.others, len(above), c.want)
		}
	}
}

// TestReadersAreNoScripts: most keys look at one page, and some read up to ninety in a day. They are
// far above the others, and no limit of a few requests is proposed.
func TestReadersAreNoScripts(t *testing.T) {
	s := newShape(1, dayBegin, dayBegin+3*day)
	s.visitorsAndReaders(1500, 40)
	s.sorted()
	r := s.suggest(t, Options{Windows: allWindows})
	suggested := r.Windows[r.Best].Suggested
	if suggested.Basis != Spare || suggested.KeysDenied > 0 || hasRule(r, Apart) || hasRule(r, Hour) {
		t.Errorf("got %s; %s", suggested.Headline, adviceText(r))
	}
}

// quietDays returns a log of two days with 100 people, each with as many requests in the 12 hours of a
// day, and at most one in a minute.
func quietDays(requests int64) *shapeSim {
	s := newShape(1, dayBegin, dayBegin+2*day)
	for d := range s.days() {
		for i := range int64(100) {
			for j := range requests {
				at := dayBegin + d*day + 8*hour + i*minute + j*12*hour/requests
				s.request(fmt.Sprintf("198.51.100.%d", i), at, "/", "200")
			}
		}
	}
	return s
}

// TestAReaderByNightIsNoScript: at night others send two requests an hour. A visitor may send 35, but
// not for longer than a script in every hour.
func TestAReaderByNightIsNoScript(t *testing.T) {
	for perHour, want := range map[int64]bool{35: false, 50: true} {
		s := quietDays(40)
		s.agents = true
		for h := range int64(4) {
			for i := range int64(20) {
				s.request(fmt.Sprintf("192.0.2.%d", i), dayBegin+h*hour+i*minute, "/", "200")
				s.request(fmt.Sprintf("192.0.2.%d", i), dayBegin+h*hour+i*minute+9*second, "/", "200")
			}
			for j := range perHour {
				s.request("203.0.113.77", dayBegin+h*hour+j*hour/perHour+j*j%7*9*second, "/", "200")
			}
		}
		s.sorted()
		r := s.suggest(t, Options{Windows: allWindows})
		if hasRule(r, Hour) != want {
			t.Errorf("%d an hour: got %s; %s", perHour, r.Windows[r.Best].Suggested.Headline, adviceText(r))
		}
	}
}

// TestScriptsOfTwoWindows: a limit per day stops a slow script, and none that sends one burst. The
// headline has a limit for each, or one for both, and the burst hides no slow script.
func TestScriptsOfTwoWindows(t *testing.T) {
	for burst, want := range map[int64]string{
		35:  " per day per ip stops 1 client and no other, and 2 per second per ip stops 1 more",
		600: " stops 2 clients and no other",
	} {
		s := quietDays(120)
		s.clockwork("203.0.113.77", 98, s.from, s.to)
		for i := range burst {
			s.request("203.0.113.88", dayBegin+12*hour+i*second/20, "/", "200")
		}
		s.sorted()
		r := s.suggest(t, Options{Windows: allWindows})
		if h := r.Windows[r.Best].Suggested.Headline; !strings.Contains(h, want) {
			t.Errorf("a burst of %d: got %s, want %s; %s", burst, h, want, adviceText(r))
		}
	}
}

// TestAnOfficeInAShortLog: two hours show many user agents, and no pause. It may be many people.
func TestAnOfficeInAShortLog(t *testing.T) {
	s := newShape(1, dayBegin+9*hour, dayBegin+11*hour)
	s.agents = true
	for i := range int64(40) {
		for j := range int64(6) {
			s.request(fmt.Sprintf("198.51.100.%d", i), s.from+i*minute+j*10*minute, "/", "200")
		}
	}
	s.plantOffice("203.0.113.10", 150)
	s.sorted()
	r := s.suggest(t, Options{Windows: allWindows})
	best := &r.Windows[r.Best].Suggested
	if !hasRule(r, Crowd) || best.KeysDenied > 0 || best.Certainty != Unknown {
		t.Errorf("got %s: %s; %s", best.Headline, best.Certainty, adviceText(r))
	}
}
