package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/weirlimit/weir/bench/internal/pace"
	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
	"github.com/weirlimit/weir/bench/internal/weirserve"
)

// offeredRates are requests a second that are sent at random instants, whether or not those
// before were answered.
var offeredRates = []float64{5_000, 10_000}

// offeredWays are indexes of the ways that are measured so.
var offeredWays = []int{0, 2, 3}

// measureOffered prints latencies at the rates. A request counts from the instant at which it was
// due, so it may have waited for a connection.
func measureOffered(servers []*weirserve.Server, rounds int, each time.Duration) error {
	p50, p99 := make([][]float64, len(offeredWays)*len(offeredRates)), make([][]float64, len(offeredWays)*len(offeredRates))
	for range rounds {
		for _, i := range rand.Perm(len(p50)) {
			w := ways[offeredWays[i/len(offeredRates)]]
			times, err := offer(servers[w.server], w.request, offeredRates[i%len(offeredRates)], each)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			p50[i], p99[i] = append(p50[i], times.Quantile(0.5)/1000), append(p99[i], times.Quantile(0.99)/1000)
		}
	}
	head := []string{"requests offered"}
	for _, rate := range offeredRates {
		head = append(head, fmt.Sprintf("p50 µs at %s a second", report.Count(rate)), "p99 µs")
	}
	table := report.Table(head...)
	for i, w := range offeredWays {
		row := []string{ways[w].name}
		for j := range offeredRates {
			k := i*len(offeredRates) + j
			row = append(row, report.Count(stat.Median(p50[k])), report.Count(stat.Median(p99[k])))
		}
		table.Row(row...)
	}
	fmt.Println()
	table.Print(os.Stdout)
	return nil
}

// offer sends requests at a rate over a set of connections, so many that a request rarely waits
// for one.
func offer(s *weirserve.Server, next request, rate float64, each time.Duration) (*stat.Histogram, error) {
	type line struct {
		conn net.Conn
		in   *bufio.Reader
	}
	idle := make(chan line, 256)
	for range cap(idle) {
		conn, err := s.Dial()
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		idle <- line{conn, bufio.NewReader(conn)}
	}
	times, failed := pace.Offer(rate, each, func(r uint64) error {
		l := <-idle
		defer func() { idle <- l }()
		if _, err := l.conn.Write(next(nil, int(r%keys))); err != nil {
			return err
		}
		return skip(l.in)
	})
	if failed > 0 {
		return nil, fmt.Errorf("%d of %d requests failed", failed, times.N())
	}
	return times, nil
}
