package suggest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/race"
)

var (
	shapesFlag = flag.Int("shapes", 0, "logs of each shape; 0 = a few")
	seedFlag   = flag.Uint64("shape-seed", 0, "the seed of the first log; 0 = the day's")
)

// shape is a kind of log with the advice of an expert.
type shape struct {
	name  string
	plant func(s *shapeSim)
	// check returns the fault of the advice on the best window, or "".
	check func(p *shapeSim, r *Result, o *outcome) string
}

// outcome is the exact effect of the advice on the planted keys.
type outcome struct {
	w                         *Window
	honest, honestDenied      int64 // requests of keys that are no scripts
	honestKeys, harmedKeys    int64
	excess, caught            int64 // requests of scripts beyond the largest honest peak, and those denied
	scripts, stopped, largest int64 // scripts, those with a denial, and the largest honest peak
}

// shapeSim plants one log. The scripts are those that a limit can stop.
type shapeSim struct {
	*sim
	agents  bool                // the log has user agents
	exempt  map[string]bool     // batches, for which a plan is right
	office  string              // the key of an office
	agentOf map[string][][]byte // by key
	pages   int
}

const dayBegin = int64(1772582400) * second // 2026-03-04, a Wednesday, in UTC

func newShape(seed uint64, days int) *shapeSim {
	s := &shapeSim{
		sim:     &sim{r: rand.New(rand.NewPCG(seed, 53)), from: dayBegin, to: dayBegin + int64(days)*day},
		exempt:  map[string]bool{},
		agentOf: map[string][][]byte{},
	}
	s.script = map[string]bool{}
	s.agents, s.pages = s.r.IntN(4) > 0, s.between(20, 400)
	return s
}

// request plants a request with its traits.
func (s *shapeSim) request(key string, at int64, path string, status string) {
	if at < s.from || at >= s.to {
		return
	}
	r := plantedRequest{key: key, at: at, path: []byte(path), status: []byte(status)}
	if s.agents {
		agents := s.agentOf[key]
		if agents == nil {
			agents = [][]byte{fmt.Appendf(nil, "agent %d", s.r.IntN(300))}
			s.agentOf[key] = agents
		}
		r.agent = agents[s.r.IntN(len(agents))]
	}
	s.all = append(s.all, r)
}

// awake returns a random instant of a day at which people are awake, most often in the evening.
func (s *shapeSim) awake(d int64) int64 {
	h := 13 + s.r.NormFloat64()*4
	for h < 6.5 || h > 23.5 {
		h = 13 + s.r.NormFloat64()*4
	}
	return s.from + d*day + int64(h*float64(hour))
}

// visitAt plants one visit of a person: pages with pauses.
func (s *shapeSim) visitAt(key string, at int64, pages int, pause float64, assets int) {
	for range pages {
		s.request(key, at, fmt.Sprintf("/page/%d", s.r.IntN(s.pages)), "200")
		for range s.r.IntN(assets + 1) {
			s.request(key, at+int64(s.r.Float64()*1.5*second), fmt.Sprintf("/asset/%d", s.r.IntN(30)), "200")
		}
		at += s.exp(pause) + 2*second
	}
}

// people plants visitors. Each has at most most requests in a day.
func (s *shapeSim) people(n, most int) {
	days := (s.to - s.from) / day
	assets := []int{0, 0, 3, 8}[s.r.IntN(4)]
	for i := range n {
		key := fmt.Sprintf("198.51.%d.%d", 100+i/250, i%250)
		pause := []float64{8, 20, 45, 90}[s.r.IntN(4)]
		for d := range days {
			if s.r.IntN(3) == 0 {
				continue
			}
			left := s.between(1, most) / (1 + assets)
			if s.r.IntN(4) > 0 {
				left = min(left, s.between(1, 15))
			}
			for left > 0 {
				pages := min(left, s.between(1, 25))
				s.visitAt(key, s.awake(d), pages, pause, assets)
				left -= pages
			}
		}
	}
}

// clockwork plants a script with a request every so many seconds.
func (s *shapeSim) clockwork(key string, every float64, from, to int64) {
	s.script[key] = true
	n := 0
	for at := float64(from); at < float64(to); at += every * second * (0.97 + 0.06*s.r.Float64()) {
		s.request(key, int64(at), fmt.Sprintf("/product/%d", n), "200")
		n++
	}
}

// plantOffice plants people behind one address in the hours of an office.
func (s *shapeSim) plantOffice(key string, people int) {
	s.office = key
	var agents [][]byte
	for range s.between(12, 60) {
		agents = append(agents, fmt.Appendf(nil, "browser %d", s.r.IntN(10_000)))
	}
	s.agentOf[key] = agents
	pause := float64(s.between(20, 60))
	for d := range (s.to - s.from) / day {
		for range people {
			for range s.between(1, 3) {
				at := s.from + d*day + int64((8.5+s.r.Float64()*8.5)*float64(hour))
				s.visitAt(key, at, s.between(2, 14), pause, 0)
			}
		}
	}
}

// shapes are the six kinds of logs.
var shapes = []shape{
	{"fast scraper", func(s *shapeSim) {
		s.people(s.between(80, 500), s.between(30, 93))
		s.clockwork("203.0.113.77", 2+13*s.r.Float64(), s.from+s.exp(3600), s.to)
	}, checkStopped},
	{"slow scraper", func(s *shapeSim) {
		s.people(s.between(80, 500), s.between(30, 93))
		s.clockwork("203.0.113.77", 20+70*s.r.Float64(), s.from+s.exp(3600), s.to)
	}, checkStopped},
	{"stuffing", func(s *shapeSim) {
		n, tries := s.between(500, 3000), s.between(1, 4)
		s.people(s.between(n/10, n), s.between(30, 93))
		night, length := int64(s.r.IntN(int((s.to-s.from)/day)))*day, int64(s.between(2, 8))*hour
		for i := range n {
			key := fmt.Sprintf("203.%d.%d.7", 1+i/250, i%250)
			at := s.from + night + int64(s.r.Float64()*float64(length))
			for range tries {
				s.request(key, at, "/login", "401")
				at += s.exp(600)
			}
		}
	}, checkSwarm},
	{"office", func(s *shapeSim) {
		s.people(s.between(80, 500), s.between(30, 93))
		s.plantOffice("203.0.113.10", s.between(50, 400))
	}, checkOffice},
	{"office and bot", func(s *shapeSim) {
		s.people(s.between(80, 500), s.between(30, 93))
		people := s.between(50, 200)
		s.plantOffice("203.0.113.10", people)
		days := float64((s.to - s.from) / day)
		daily := float64(len(s.all)) / days // more than the office in a day
		s.clockwork("203.0.113.77", 86400/(daily*(2+3*s.r.Float64())), s.from+s.exp(3600), s.to)
	}, checkStopped},
	{"nightly batches", func(s *shapeSim) {
		s.people(s.between(40, 300), s.between(30, 93))
		for i := range s.between(1, 4) {
			key := fmt.Sprintf("batch-%d", i)
			s.exempt[key] = true
			begin, n, every := 1+s.r.Float64()*3, s.between(2000, 12_000), 0.1+0.6*s.r.Float64()
			for d := range (s.to - s.from) / day {
				at := float64(s.from+d*day) + begin*float64(hour) + s.r.Float64()*300*second
				for range int(float64(n) * (0.9 + 0.2*s.r.Float64())) {
					s.request(key, int64(at), "/api/items", "200")
					at += every * second * 2 * s.r.Float64()
				}
			}
		}
	}, checkBatches},
}

// measure returns the exact effect of the advice on the planted keys: of batches by their plan.
func (p *shapeSim) measure(r *Result) *outcome {
	o := &outcome{w: &r.Windows[r.Best]}
	byKey := map[string][]request{}
	var slots replay.Slots
	for _, e := range p.all {
		byKey[e.key] = append(byKey[e.key], request{e.at, 1})
		slots.Add(e.at, false)
	}
	window := o.w.Window.Microseconds()
	var h history
	for key, all := range byKey {
		if !p.script[key] && !p.exempt[key] {
			o.largest = max(o.largest, h.peak(window, all))
		}
	}
	plans := map[string]int64{}
	for _, e := range o.w.Suggested.Exempt {
		plans[e.Key[0].Value] = e.Limit
	}
	denied := func(limit int64, all []request) int64 {
		e := newEffect(window, limit, &slots)
		n, _ := e.add(&h, all)
		return n
	}
	for key, all := range byKey {
		limit := o.w.Suggested.Limit
		if plan := plans[key]; plan > 0 {
			limit = plan
		}
		n := denied(limit, all)
		if p.script[key] {
			o.scripts++
			o.excess += denied(o.largest+max(1, o.largest/2), all)
			o.caught += n
			if n > 0 {
				o.stopped++
			}
			continue
		}
		o.honest, o.honestKeys = o.honest+int64(len(all)), o.honestKeys+1
		o.honestDenied += n
		if n > 0 {
			o.harmedKeys++
		}
	}
	return o
}

// harm returns the fault of an advice that denies more than one of 1,000 honest clients, or "".
func (o *outcome) harm() string {
	if o.harmedKeys*1000 > o.honestKeys {
		return fmt.Sprintf("denies %d of %d honest keys, %d requests", o.harmedKeys, o.honestKeys, o.honestDenied)
	}
	return ""
}

func checkStopped(_ *shapeSim, _ *Result, o *outcome) string {
	switch {
	case o.stopped < o.scripts || o.caught*10 < o.excess*9:
		return fmt.Sprintf("denies %d of %d requests of %d scripts, of which it stops %d", o.caught, o.excess, o.scripts, o.stopped)
	case o.w.Suggested.Basis != Gap || !strings.Contains(o.w.Suggested.Headline, fmt.Sprintf(" stops %s and no other", counted(o.scripts, "client", "clients"))):
		return "says " + o.w.Suggested.Headline
	}
	return ""
}

func hasRule(r *Result, class Class) bool {
	return slices.ContainsFunc(r.Advice, func(a Advice) bool { return a.Rule == class })
}

func checkSwarm(_ *shapeSim, r *Result, o *outcome) string {
	h := o.w.Suggested.Headline
	if !hasRule(r, Swarm) || !strings.HasPrefix(h, "no limit per ip helps") || !strings.Contains(h, "--key '' --where path=/login") {
		return "says " + h
	}
	return ""
}

// checkOffice wants the advice that the key may be many people if the limit for the others alone
// would deny it.
func checkOffice(p *shapeSim, r *Result, o *outcome) string {
	i := slices.IndexFunc(r.Advice, func(a Advice) bool { return a.Rule == Crowd })
	switch {
	case o.w.Suggested.KeysDenied > 0:
		return "says " + o.w.Suggested.Headline
	case i < 0 || len(r.Advice[i].Keys) != 1 || r.Advice[i].Keys[0][0].Value != p.office:
		return "does not name the office as many people"
	case !p.agents && o.w.Suggested.Certainty != Unknown:
		return "is certain without user agents"
	}
	return ""
}

func checkBatches(p *shapeSim, r *Result, o *outcome) string {
	s := &o.w.Suggested
	named := 0
	for _, e := range s.Exempt {
		if !p.exempt[e.Key[0].Value] {
			return "exempts " + keyText(e.Key)
		}
		named++
	}
	switch {
	case named != len(p.exempt):
		return fmt.Sprintf("exempts %d of %d batches", named, len(p.exempt))
	case !strings.Contains(s.Headline, "with a plan for ") || s.Limit > 2*o.largest+2:
		return fmt.Sprintf("says %s, and others have at most %d", s.Headline, o.largest)
	}
	return ""
}

// TestAdviceOfSixShapes compares the advice with that of an expert on logs with sizes and rates
// drawn at random: a fault in at most one of 20 logs of each shape, and at most one of 1,000 honest
// keys denied in all of them.
func TestAdviceOfSixShapes(t *testing.T) {
	needs.Time(t)
	n := *shapesFlag
	if n == 0 {
		n = race.Fewer(4)
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().Unix() / 86400)
	}
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			right, keys, harmed := 0, int64(0), int64(0)
			for i := range uint64(n) {
				s := newShape(seed+i, 1+int((seed+i)%3)+1)
				shape.plant(s)
				s.sorted()
				r := s.suggest(t, Options{Windows: []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}})
				o := s.measure(r)
				keys, harmed = keys+o.honestKeys, harmed+o.harmedKeys
				problem := shape.check(s, r, o)
				if h := o.harm(); problem == "" && h != "" {
					problem = h
				}
				if problem == "" {
					right++
					continue
				}
				t.Logf("seed %d, %d requests, per %v: %s; %s", seed+i, len(s.all), o.w.Window, problem, o.w.Suggested.Why)
			}
			t.Logf("%s: right in %d of %d logs from seed %d; %d of %d honest keys denied", shape.name, right, n, seed, harmed, keys)
			if (n-right)*20 > n || harmed*1000 > keys {
				t.Errorf("%s: right in %d of %d logs from seed %d; %d of %d honest keys denied", shape.name, right, n, seed, harmed, keys)
			}
		})
	}
}
