package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
	"github.com/weirlimit/weir/bench/internal/weirserve"
)

const mib = 1 << 20

// measureProcess measures memory, disk and time to start of a process.
func measureProcess(weir, file string, rounds int) ([]report.Goal, error) {
	info, err := os.Stat(weir)
	if err != nil {
		return nil, err
	}
	var ready []float64
	for range rounds {
		s, err := weirserve.Start(weir, "--policies", file)
		if err != nil {
			return nil, err
		}
		ready = append(ready, float64(s.Ready.Microseconds())/1000)
		s.Kill()
	}
	resident, err := residentWithKeys(weir, file)
	if err != nil {
		return nil, err
	}
	late, err := answersWithoutStore(weir, file)
	if err != nil {
		return nil, err
	}
	return []report.Goal{
		{Text: "MiB resident with 10,000 keys", Bound: 40, AtMost: true, Measured: resident},
		{Text: "MiB of the static binary", Bound: 34, AtMost: true, Measured: float64(info.Size()) / mib},
		{Text: "ms from start to ready, median", Bound: 100, AtMost: true, Measured: stat.Median(ready)},
		{Text: "ms to an answer with a dead store and an open breaker, p99", Bound: 5, AtMost: true, Measured: late},
	}, nil
}

// residentWithKeys returns the peak of resident memory during requests for 10,000 keys,
// each charged twice or more before.
func residentWithKeys(weir, file string) (float64, error) {
	s, err := weirserve.Start(weir, "--policies", file, "--grpc-listen", "127.0.0.1:0", "--resp-listen", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer s.Kill()
	conn, err := s.Dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	next := check("users")
	for i := range 2 * keys {
		if _, err := conn.Write(next(nil, i%keys)); err != nil {
			return 0, err
		}
		if err := skip(in); err != nil {
			return 0, err
		}
	}
	most := int64(0)
	for range 10 {
		if _, err := sendFor(s, next, 16, 100*time.Millisecond); err != nil {
			return 0, err
		}
		n, err := s.Resident()
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	held, err := s.Metric("weir_store_keys")
	if err == nil && held < keys {
		err = fmt.Errorf("it holds %.0f keys, not %d", held, keys)
	}
	return float64(most) / mib, err
}

// answersWithoutStore returns the 99th percentile of latency, in milliseconds, after
// weir has noticed that no store listens.
func answersWithoutStore(weir, file string) (float64, error) {
	s, err := weirserve.Start(weir, "--policies", file, "--store", "redis://127.0.0.1:1")
	if err != nil {
		return 0, err
	}
	defer s.Kill()
	conn, err := s.Dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	next := check("users")
	var took []float64
	for i := range 3000 {
		began := time.Now()
		if _, err := conn.Write(next(nil, i)); err != nil {
			return 0, err
		}
		if err := skip(in); err != nil {
			return 0, err
		}
		if i >= 1000 { // by then the breaker is open
			took = append(took, float64(time.Since(began).Microseconds())/1000)
		}
	}
	if open, err := s.Metric("weir_store_breaker_open"); err != nil || open != 1 {
		return math.NaN(), fmt.Errorf("the breaker is not open: %v, %w", open, err)
	}
	slices.Sort(took)
	return took[len(took)*99/100], nil
}
