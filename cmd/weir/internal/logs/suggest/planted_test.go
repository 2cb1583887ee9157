package suggest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// planted is a log with known classes of keys.
type planted struct {
	all    []plantedRequest // by time
	script map[string]bool
}

type plantedRequest struct {
	key string
	at  int64

	agent, user, path, status []byte // nil = the log has none
}

type sim struct {
	r        *rand.Rand
	from, to int64
	planted
}

// newSim returns a log of one of the numbers of hours.
func newSim(seed, stream uint64, hours ...int) (s *sim, chosen int) {
	s = &sim{r: rand.New(rand.NewPCG(seed, stream)), from: 1772697600 * second, planted: planted{script: map[string]bool{}}}
	chosen = hours[s.r.IntN(len(hours))]
	s.to = s.from + int64(chosen)*3600*second
	return s, chosen
}

// sorted returns the log by time.
func (s *sim) sorted() *planted {
	slices.SortStableFunc(s.all, func(a, b plantedRequest) int { return cmp.Compare(a.at, b.at) })
	return &s.planted
}

func (s *sim) put(key string, at int64) {
	if at >= s.from && at < s.to {
		s.all = append(s.all, plantedRequest{key: key, at: at})
	}
}

func (s *sim) exp(mean float64) int64 { return int64(s.r.ExpFloat64() * mean * second) }
func (s *sim) between(a, b int) int   { return a + s.r.IntN(b-a+1) }

// visit is one page view with its assets.
func (s *sim) visit(key string, at int64, assets int) {
	s.put(key, at)
	if assets > 0 {
		for range s.between(assets/3, assets) {
			s.put(key, at+int64(s.r.Float64()*1.5*second))
		}
	}
}

// person makes sessions of page views.
func (s *sim) person(key string, from, to int64, sessionsEvery float64, assets int) {
	for at := from + s.exp(sessionsEvery); at < to; at += s.exp(sessionsEvery) {
		for t := at; t < to; t += s.exp(25) + second {
			s.visit(key, t, assets)
			if s.r.IntN(8) == 0 {
				break
			}
		}
	}
}

func (s *sim) poisson(key string, from, to int64, every float64) {
	for at := from + s.exp(every); at < to; at += s.exp(every) {
		s.put(key, at)
	}
}

// plant returns a random log.
func plant(seed uint64) *planted {
	s, hours := newSim(seed, 1, 1, 2, 6, 24, 48)
	span := s.to - s.from
	people := s.between(150, 900)
	if hours > 6 {
		people = s.between(150, 400)
	}
	assets := []int{0, 0, 6, 15, 30}[s.r.IntN(5)]
	sessions := float64(s.between(900, 7200))
	kind := s.r.IntN(3)
	for i := range people {
		key := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
		if kind == 0 || kind == 2 && i%2 == 0 {
			s.poisson(key, s.from, s.to, float64(s.between(20, 300)))
		} else {
			s.person(key, s.from, s.to, sessions, assets)
		}
	}
	for i := range s.between(0, 8) {
		key := fmt.Sprintf("10.1.0.%d", i)
		for range s.between(5, 25) {
			if kind == 0 {
				s.poisson(key, s.from, s.to, float64(s.between(20, 300)))
			} else {
				s.person(key, s.from+span/4, s.to-span/4, sessions, assets)
			}
		}
	}
	for i := range s.between(0, 3) {
		n, every := s.between(30, 300), 1+s.r.Float64()*9
		start := s.from + int64(s.r.Float64()*float64(span)*0.9)
		for j := range n {
			s.put(fmt.Sprintf("10.2.0.%d", i), start+int64(float64(j)*every*second))
		}
	}
	for i := range s.between(2, 6) {
		s.plantScript(i, span)
	}
	return s.sorted()
}

// plantScript adds a script of a random kind.
func (s *sim) plantScript(i int, span int64) {
	key := fmt.Sprintf("203.0.113.%d", i)
	start := s.from + int64(s.r.Float64()*float64(span)*0.5)
	stop := start + int64((0.1+s.r.Float64()*0.4)*float64(span))
	s.script[key] = true
	switch s.r.IntN(5) {
	case 0: // steady
		rate := 5 + s.r.Float64()*25
		for at := start; at < min(stop, start+int64(60000/rate*second)); at += int64(second / rate) {
			s.put(key, at+int64(s.r.Float64()*0.2*second))
		}
	case 1: // random
		rate := 3 + s.r.Float64()*12
		s.poisson(key, start, min(stop, start+int64(60000/rate*second)), 1/rate)
	case 2: // bursts
		n, every := s.between(300, 900), int64(s.between(120, 900))*second
		for at := start; at < stop; at += every {
			for j := range n {
				s.put(key, at+int64(j)*second/50)
			}
		}
	case 3: // slow
		every := int64(s.between(1, 3)) * second
		for at := s.from + s.exp(10); at < s.to; at += every {
			s.put(key, at)
		}
	case 4: // credential stuffing from several addresses
		n := s.between(2, 8)
		for j := range n {
			key := fmt.Sprintf("198.51.100.%d", i*10+j)
			s.script[key] = true
			for at := start; at < min(stop, start+1200*second); at += s.exp(0.15) {
				s.put(key, at)
			}
		}
	}
}

// plantClose returns a random log of people, and of many steady scripts whose peaks can be
// next to those of people.
func plantClose(seed uint64) *planted {
	s, _ := newSim(seed, 7, 2, 6, 24)
	people, assets := s.between(150, 500), []int{0, 0, 4, 6, 15}[s.r.IntN(5)]
	sessions := float64(s.between(900, 5400))
	for i := range people {
		s.person(fmt.Sprintf("10.0.%d.%d", i/250, i%250), s.from, s.to, sessions, assets)
	}
	scripts, rate := s.between(10, 40), []float64{3, 5, 8, 14, 20}[s.r.IntN(5)]
	if rate <= 5 && assets > 6 {
		rate += 10
	}
	for i := range scripts {
		key := fmt.Sprintf("198.51.100.%d", i)
		s.script[key] = true
		start := s.from + int64(s.r.Float64()*0.5*float64(s.to-s.from))
		for at := start; at < min(s.to, start+600*second); at += int64(second / rate) {
			s.put(key, at+int64(s.r.Float64()*0.2*second))
		}
	}
	return s.sorted()
}
