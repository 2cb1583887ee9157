package suggest

import (
	"cmp"
	"flag"
	"fmt"
	"math"
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
	seedFlag   = flag.Uint64("shape-seed", 0, "the seed of the first log; 0 = the day's with -shapes, otherwise 1")
)

// firstSeed returns the seed of the first log. A few logs are the same on every day: one of them
// with a fault would be more than a twentieth, and no reason to stop an unrelated change.
func firstSeed() uint64 {
	switch {
	case *seedFlag != 0:
		return *seedFlag
	case *shapesFlag != 0:
		return uint64(time.Now().Unix() / 86400)
	default:
		return 1
	}
}

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
	userOf  map[string][][]byte // by key; nil = no accounts
	pages   int
	isWide  bool // sizes are drawn from 2 on
}

// allWindows are those of weir suggest.
var allWindows = []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}

const dayBegin = int64(1772582400) * second // 2026-03-04, a Wednesday, in UTC

func newShape(seed uint64, from, to int64) *shapeSim {
	s := &shapeSim{
		sim:     &sim{r: rand.New(rand.NewPCG(seed, 53)), from: from, to: to},
		exempt:  map[string]bool{},
		agentOf: map[string][][]byte{},
		userOf:  map[string][][]byte{},
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
	if users := s.userOf[key]; users != nil {
		r.user = users[s.r.IntN(len(users))]
	}
	s.all = append(s.all, r)
}

// days returns the number of days of which the log has a part.
func (s *shapeSim) days() int64 { return (s.to - dayBegin + day - 1) / day }

// size returns a number of the usual range, or one of a range that is far wider on both sides: all
// orders of magnitude are as probable.
func (s *shapeSim) size(a, b int) int {
	if !s.isWide {
		return s.between(a, b)
	}
	return int(2 * math.Pow(float64(b), s.r.Float64()))
}

// awake returns a random instant of a day at which people are awake, most often in the evening.
func (s *shapeSim) awake(d int64) int64 {
	h := 13 + s.r.NormFloat64()*4
	for h < 6.5 || h > 23.5 {
		h = 13 + s.r.NormFloat64()*4
	}
	return dayBegin + d*day + int64(h*float64(hour))
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
	assets := []int{0, 0, 3, 8}[s.r.IntN(4)]
	for i := range n {
		key := fmt.Sprintf("198.51.%d.%d", 100+i/250, i%250)
		pause := []float64{8, 20, 45, 90}[s.r.IntN(4)]
		for d := range s.days() {
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
	s.plantPeople(key, people)
}

// plantPeople plants people in the hours of an office.
func (s *shapeSim) plantPeople(key string, people int) {
	s.office = key
	pause := float64(s.between(20, 60))
	for d := range s.days() {
		for range people {
			for range s.between(1, 3) {
				at := dayBegin + d*day + int64((8.5+s.r.Float64()*8.5)*float64(hour))
				s.visitAt(key, at, s.between(2, 14), pause, 0)
			}
		}
	}
}

// shapes are the kinds of logs.
var shapes = []shape{
	{"fast scraper", func(s *shapeSim) {
		s.people(s.size(80, 500), s.between(30, 93))
		s.clockwork("203.0.113.77", 2+13*s.r.Float64(), s.from+s.exp(3600), s.to)
	}, checkStopped},
	{"slow scraper", func(s *shapeSim) {
		s.people(s.size(80, 500), s.between(30, 93))
		s.clockwork("203.0.113.77", 20+70*s.r.Float64(), s.from+s.exp(3600), s.to)
	}, checkStopped},
	{"stuffing", func(s *shapeSim) {
		n, tries := s.size(500, 3000), s.between(1, 4)
		s.people(s.between(n/10, n), s.between(30, 93))
		night, length := s.r.Int64N(s.days())*day, int64(s.between(2, 8))*hour
		for i := range n {
			key := fmt.Sprintf("203.%d.%d.7", 1+i/250, i%250)
			at := dayBegin + night + int64(s.r.Float64()*float64(length))
			for range tries {
				s.request(key, at, "/login", "401")
				at += s.exp(600)
			}
		}
	}, checkSwarm},
	{"office", func(s *shapeSim) {
		s.people(s.size(80, 500), s.between(30, 93))
		s.plantOffice("203.0.113.10", s.size(50, 400))
	}, checkOffice},
	{"office and bot", func(s *shapeSim) {
		s.people(s.size(80, 500), s.between(30, 93))
		people := s.size(50, 200)
		s.plantOffice("203.0.113.10", people)
		daily := float64(len(s.all)) / float64(s.days()) // more than the office in a day
		s.clockwork("203.0.113.77", 86400/(daily*(2+3*s.r.Float64())), s.from+s.exp(3600), s.to)
	}, checkStopped},
	{"nightly batches", func(s *shapeSim) {
		s.people(s.size(40, 300), s.between(30, 93))
		for i := range s.between(1, 4) {
			key := fmt.Sprintf("batch-%d", i)
			s.exempt[key] = true
			begin, n, every := 1+s.r.Float64()*3, s.size(2000, 12_000), 0.1+0.6*s.r.Float64()
			for d := range s.days() {
				at := float64(dayBegin+d*day) + begin*float64(hour) + s.r.Float64()*300*second
				for range int(float64(n) * (0.9 + 0.2*s.r.Float64())) {
					s.request(key, int64(at), "/api/items", "200")
					at += every * second * 2 * s.r.Float64()
				}
			}
		}
	}, checkBatches},
	{"night scraper", func(s *shapeSim) {
		s.people(s.size(80, 500), s.between(30, 93))
		s.nightOwls(s.size(15, 60))
		night := dayBegin + s.r.Int64N(s.days())*day
		s.script["203.0.113.77"] = true
		begin := night + s.exp(3600)%hour
		length := int64(s.between(2, 5)) * hour
		for range s.size(250, 900) {
			s.request("203.0.113.77", begin+s.r.Int64N(length), "/product", "200")
		}
	}, checkNight},
	{"carrier", func(s *shapeSim) {
		if s.r.IntN(2) == 0 {
			s.to = s.from + min(day, s.to-s.from)
		}
		s.people(s.size(80, 500), s.between(30, 93))
		s.plantCarrier("203.0.113.10", s.size(100, 600))
	}, checkOffice},
	{"accounts", func(s *shapeSim) {
		s.people(s.size(80, 500), s.between(30, 93))
		s.agentOf["203.0.113.10"] = [][]byte{[]byte("browser of the company")}
		people := s.size(50, 400)
		for i := range people {
			s.userOf["203.0.113.10"] = append(s.userOf["203.0.113.10"], fmt.Appendf(nil, "user %d", i))
		}
		s.plantPeople("203.0.113.10", people)
	}, checkAccounts},
	{"scrapers of two windows", func(s *shapeSim) {
		s.people(s.size(80, 500), s.between(30, 93))
		s.clockwork("203.0.113.77", 20+50*s.r.Float64(), s.from+s.exp(3600), s.to)
		s.script["203.0.113.88"] = true
		begin := s.from + s.r.Int64N(s.to-s.from)/2
		for i := range s.between(400, 900) {
			s.request("203.0.113.88", begin+int64(i)*second/20, fmt.Sprintf("/product/%d", i), "200")
		}
	}, checkTwo},
	{"guesses among visitors", func(s *shapeSim) {
		n, tries := s.size(500, 3000), s.between(3, 15)
		s.people(s.between(n/10, n), s.between(30, 93))
		for d := range s.days() {
			for i := range n / 3 {
				s.request(fmt.Sprintf("192.%d.%d.%d", d, i/250, i%250), s.awake(d), fmt.Sprintf("/page/%d", s.r.IntN(9)), "200")
			}
		}
		night := dayBegin + s.r.Int64N(s.days())*day
		for i := range n {
			key := fmt.Sprintf("203.%d.%d.7", 1+i/250, i%250)
			at := night + s.r.Int64N(5*hour)
			s.request(key, at, "/login", "200")
			for range tries {
				at += s.exp(300)
				s.request(key, at, "/session", "401")
			}
		}
	}, checkGuesses},
	{"readers", func(s *shapeSim) {
		s.visitorsAndReaders(s.size(200, 2000), s.between(5, 60))
		s.clockwork("203.0.113.77", 5+40*s.r.Float64(), s.from+s.exp(3600), s.to)
	}, checkStopped},
	{"long batches", func(s *shapeSim) {
		s.people(s.size(40, 300), s.between(30, 93))
		s.exempt["batch"] = true
		begin, length, every := 0.2+s.r.Float64(), s.between(2, 6), 0.5+2*s.r.Float64()
		for d := range s.days() {
			at := dayBegin + d*day + int64(begin*float64(hour))
			for end := at + int64(length)*hour; at < end; at += int64(every * second * 2 * s.r.Float64()) {
				s.request("batch", at, "/api/items", "200")
			}
		}
	}, checkLongBatches},
}

// visitorsAndReaders plants visitors of a day, each with one page, and readers with up to ninety.
func (s *shapeSim) visitorsAndReaders(visitors, readers int) {
	for d := range s.days() {
		for i := range visitors {
			s.visitAt(fmt.Sprintf("192.%d.%d.%d", d, i/250, i%250), s.awake(d), 1, 30, 0)
		}
		for i := range readers {
			for range s.between(0, 3) {
				s.visitAt(fmt.Sprintf("198.51.100.%d", i), s.awake(d), s.between(10, 30), 40, 0)
			}
		}
	}
}

// plantCarrier plants people behind one address of a mobile network: at all hours, and less at night.
func (s *shapeSim) plantCarrier(key string, people int) {
	s.office = key
	var agents [][]byte
	for range s.between(30, 200) {
		agents = append(agents, fmt.Appendf(nil, "phone %d", s.r.IntN(10_000)))
	}
	s.agentOf[key] = agents
	night := 0.05 + 0.25*s.r.Float64() // as a share of other hours
	for d := range s.days() {
		for h := range int64(24) {
			visits := float64(people) / 12
			if h < 7 {
				visits *= night
			}
			for range int(visits + s.r.Float64()) {
				s.visitAt(key, dayBegin+d*day+h*hour+s.r.Int64N(hour), s.between(1, 8), 30, 0)
			}
		}
	}
}

// nightOwls plants people who open a few pages in each hour of the night.
func (s *shapeSim) nightOwls(n int) {
	for d := range s.days() {
		for h := range int64(7) {
			for range n {
				key := fmt.Sprintf("192.0.2.%d", s.r.IntN(2*n))
				s.visitAt(key, dayBegin+d*day+h*hour+s.r.Int64N(hour), s.between(1, 2), 20, 0)
			}
		}
	}
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
			o.largest = max(o.largest, fullestUnits(all, window))
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
		if p.isWide && p.exempt[key] {
			continue // a batch that ran once is a script like others, and the text says so
		}
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

// checkNight wants the script stopped. Without user agents it may be an office far away.
func checkNight(p *shapeSim, r *Result, o *outcome) string {
	if !p.agents && o.w.Suggested.Certainty == Unknown {
		return ""
	}
	return checkStopped(p, r, o)
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
	isNamed := func(a Advice) bool { return a.Rule == Crowd || a.Rule == Unclear && !p.agents }
	i := slices.IndexFunc(r.Advice, isNamed)
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

// checkLongBatches accepts a limit that spares the batches, too: long ones are slow.
func checkLongBatches(p *shapeSim, r *Result, o *outcome) string {
	if hasRule(r, Batch) && o.w.Suggested.KeysDenied == 0 {
		return ""
	}
	return checkBatches(p, r, o)
}

// checkAccounts wants the office named, and spared, if it is heavy at all.
func checkAccounts(p *shapeSim, r *Result, o *outcome) string {
	p.agents = true // its accounts show as much
	return checkOffice(p, r, o)
}

// checkTwo wants a limit for each of two scripts, or one for both.
func checkTwo(_ *shapeSim, _ *Result, o *outcome) string {
	h := o.w.Suggested.Headline
	isBoth := strings.Contains(h, " stops 2 clients and no other")
	isEach := strings.Contains(h, " stops 1 client and no other, and ") && strings.Contains(h, " stops 1 more")
	if !isBoth && !isEach {
		return "says " + h
	}
	return ""
}

func checkGuesses(_ *shapeSim, r *Result, o *outcome) string {
	h := o.w.Suggested.Headline
	if !hasRule(r, Swarm) || !strings.HasPrefix(h, "no limit per ip helps") || !strings.Contains(h, "and most fail; limit by account") {
		return "says " + h
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

// TestAdviceOfEachShape compares the advice with that of an expert on logs with sizes and rates
// drawn at random: a fault in at most one of 20 logs of each shape, and at most one of 1,000 honest
// keys denied in all of them.
func TestAdviceOfEachShape(t *testing.T) {
	needs.Time(t)
	n := *shapesFlag
	if n == 0 {
		n = race.Fewer(3)
	}
	seed := firstSeed()
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			right, keys, harmed := 0, int64(0), int64(0)
			for i := range uint64(n) {
				s := newShape(seed+i, dayBegin, dayBegin+int64(2+(seed+i)%3)*day)
				shape.plant(s)
				s.sorted()
				r := s.suggest(t, Options{Windows: allWindows})
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
				t.Logf("seed %d, %d requests, per %v: %s; %s", seed+i, len(s.all), o.w.Window, problem, adviceText(r))
			}
			t.Logf("%s: right in %d of %d logs from seed %d; %d of %d honest keys denied", shape.name, right, n, seed, harmed, keys)
			if (n-right)*20 > n || harmed*1000 > keys {
				t.Errorf("%s: right in %d of %d logs from seed %d; %d of %d honest keys denied", shape.name, right, n, seed, harmed, keys)
			}
		})
	}
}

// TestAdviceOfAnyLog draws logs from a quarter of an hour to a week, with two keys or thousands.
// Where the advice is sure, it is that of an expert: it denies no person, and no client is left that
// a limit could have stopped. Elsewhere it says that it does not know.
func TestAdviceOfAnyLog(t *testing.T) {
	needs.Time(t)
	n := uint64(cmp.Or(*shapesFlag, race.Fewer(4)))
	seed := firstSeed()
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			faults, keys, harmed := 0, int64(0), int64(0)
			certain := map[Certainty]int{}
			for i := range n {
				s := newWideShape(seed + i)
				shape.plant(s)
				if len(s.all) == 0 {
					continue
				}
				s.sorted()
				r := s.suggest(t, Options{Windows: allWindows})
				o := s.measure(r)
				problem := o.harm()
				if hasRule(r, Swarm) {
					problem = "" // it advises against the limit
					o.harmedKeys = 0
				}
				keys += o.honestKeys
				harmed += o.harmedKeys
				certainty := o.w.Suggested.Certainty
				certain[certainty]++
				if missed := s.missed(r); problem == "" && certainty == Sure && missed != "" {
					problem = missed
				}
				if problem == "" {
					continue
				}
				faults++
				t.Logf("seed %d, %d requests of %d keys in %v, per %v: %s; says %s: %s; %s", seed+i, r.Requests, r.Keys, time.Duration(s.to-s.from)*time.Microsecond,
					o.w.Window, problem, o.w.Suggested.Headline, certainty, adviceText(r))
			}
			t.Logf("%s: %d faults in %d logs from seed %d, which are %v; %d of %d honest keys denied", shape.name, faults, n, seed, certain, harmed, keys)
			if uint64(faults)*20 > n || harmed*1000 > keys {
				t.Errorf("%s: %d faults in %d logs from seed %d; %d of %d honest keys denied", shape.name, faults, n, seed, harmed, keys)
			}
		})
	}
}

// newWideShape returns a log of any length, from any time of the day.
func newWideShape(seed uint64) *shapeSim {
	s := newShape(seed, dayBegin, 0)
	s.isWide = true
	s.from += s.r.Int64N(day)
	s.to = s.from + int64(15*float64(minute)*math.Pow(7*24*4, s.r.Float64()))
	return s
}

// missed returns the script that the advice lets through, and that a limit of some window could
// have stopped; "" if there is none.
func (p *shapeSim) missed(r *Result) string {
	byKey := map[string][]request{}
	for _, e := range p.all {
		byKey[e.key] = append(byKey[e.key], request{e.at, 1})
	}
	best := &r.Windows[r.Best]
	for key := range p.script {
		isStopped := func(w Window) bool {
			isNamed := strings.Contains(best.Suggested.Headline, w.Suggested.Line)
			return isNamed && fullestUnits(byKey[key], w.Window.Microseconds()) > w.Suggested.Limit
		}
		if slices.ContainsFunc(r.Windows, isStopped) {
			continue
		}
		for _, w := range r.Windows {
			largest := int64(0)
			for other, all := range byKey {
				if !p.script[other] {
					largest = max(largest, fullestUnits(all, w.Window.Microseconds()))
				}
			}
			if n := fullestUnits(byKey[key], w.Window.Microseconds()); n >= 2*largest+2 {
				return fmt.Sprintf("lets %s through, which has %d per %v, and others %d", key, n, w.Window, largest)
			}
		}
	}
	return ""
}

// adviceText returns what each rule found.
func adviceText(r *Result) string {
	var all []string
	for _, a := range r.Advice {
		all = append(all, string(a.Rule)+": "+a.Text)
	}
	return strings.Join(all, "; ")
}
