// Command logs writes the log of a small shop on two days, as gzip: visitors, two offices
// behind one address each, a nightly job, a monitor, and four kinds of scripts.
//
//	go run ./examples/logs > examples/logs/shop.log.gz
//
// The output is always the same. weir suggest reads it in docs/choosing.md.
package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

func main() {
	z, err := gzip.NewWriterLevel(os.Stdout, gzip.BestCompression)
	if err == nil {
		err = writeLog(z)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "logs:", err)
		os.Exit(2)
	}
}

// writeLog writes the log as text.
func writeLog(out io.Writer) error {
	s := &shop{random: rand.New(rand.NewPCG(2026, 3))}
	begin := time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)
	for day := range 2 {
		s.day(begin.AddDate(0, 0, day))
	}
	// The scripts: a steady scraper, a crawler in bursts, a slow scraper, and guesses of
	// passwords from three addresses.
	s.every("203.0.113.9", at(begin, 0, 13, 0), at(begin, 0, 15, 30), 3*time.Second, "GET /product/%d", 200)
	for burst := range 12 {
		from := at(begin, 1, 9, 0).Add(time.Duration(burst) * 10 * time.Minute)
		s.every("203.0.113.77", from, from.Add(20*time.Second), 100*time.Millisecond, "GET /search?q=%d", 200)
	}
	s.every("198.51.100.250", at(begin, 1, 6, 0), at(begin, 1, 18, 0), 20*time.Second, "GET /product/%d", 200)
	for _, addr := range []string{"192.0.2.50", "192.0.2.51", "192.0.2.52"} {
		s.every(addr, at(begin, 1, 20, 15), at(begin, 1, 20, 30), time.Second, "POST /login?n=%d", 401)
	}
	slices.SortStableFunc(s.all, func(a, b request) int { return a.at.Compare(b.at) })
	w := bufio.NewWriter(out)
	for _, r := range s.all {
		fmt.Fprintf(w, "%s - - [%s] \"%s HTTP/1.1\" %d %d \"-\" \"Mozilla/5.0\"\n",
			r.addr, r.at.Format("02/Jan/2006:15:04:05 -0700"), r.line, r.status, r.size)
	}
	return w.Flush()
}

// at returns an hour and minute of a day.
func at(begin time.Time, day, hour, minute int) time.Time {
	return begin.AddDate(0, 0, day).Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

type request struct {
	at           time.Time
	addr, line   string
	status, size int
}

// shop collects the requests of a log.
type shop struct {
	random *rand.Rand
	all    []request
}

// add adds a request of a whole second, as the combined log has them.
func (s *shop) add(addr string, at time.Time, line string, status int) {
	s.all = append(s.all, request{at.Truncate(time.Second), addr, line, status, 300 + s.random.IntN(9000)})
}

// pause returns a random time with a mean.
func (s *shop) pause(mean time.Duration) time.Duration {
	return time.Duration(s.random.ExpFloat64() * float64(mean))
}

// every adds equal requests with a fixed pause.
func (s *shop) every(addr string, from, to time.Time, pause time.Duration, line string, status int) {
	n := 0
	for t := from; t.Before(to); t = t.Add(pause) {
		n++
		s.add(addr, t, fmt.Sprintf(line, n), status)
	}
}

// session adds the page views of one visit, each with assets.
func (s *shop) session(addr string, t time.Time) {
	for range 1 + s.random.IntN(7) {
		s.add(addr, t, s.page(), 200)
		for i := range s.random.IntN(8) {
			s.add(addr, t.Add(s.pause(500*time.Millisecond)), fmt.Sprintf("GET /static/%d.js", i), 200)
		}
		t = t.Add(5*time.Second + s.pause(30*time.Second))
	}
}

func (s *shop) page() string {
	switch s.random.IntN(5) {
	case 0:
		return "GET /"
	case 1:
		return "GET /cart"
	case 2:
		return "GET /search?q=" + []string{"hat", "shoes", "coat", "gloves"}[s.random.IntN(4)]
	}
	return fmt.Sprintf("GET /product/%d", s.random.IntN(400))
}

// day adds the ordinary requests of one day.
func (s *shop) day(day time.Time) {
	for i := range 300 { // visitors, most of them in the evening
		hour := 8 + (s.random.IntN(15)+s.random.IntN(15))/2
		t := day.Add(time.Duration(hour)*time.Hour + time.Duration(s.random.IntN(3600))*time.Second)
		s.session(fmt.Sprintf("10.%d.%d.%d", i%7, i%31, i%251), t)
	}
	for office, people := range []int{12, 25} { // from nine to five
		for range people * 3 {
			t := day.Add(9*time.Hour + time.Duration(s.random.IntN(8*3600))*time.Second)
			s.session(fmt.Sprintf("10.200.0.%d", office), t)
		}
	}
	for t := day; t.Before(day.AddDate(0, 0, 1)); t = t.Add(2 * time.Minute) {
		s.add("10.250.0.1", t, "GET /health", 200)
	}
	s.every("10.250.0.2", day.Add(2*time.Hour), day.Add(2*time.Hour+10*time.Minute), 4*time.Second, "GET /feed?page=%d", 200)
}
