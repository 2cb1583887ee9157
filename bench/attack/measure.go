package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir/bench/internal/weirserve"
)

// sampleEvery is the interval between two samples of resident memory.
const sampleEvery = 10 * time.Second

// measure is one phase of the run.
type measure struct {
	honest *honest
	server *weirserve.Server
	phase  phase
	print  bool // each sample

	samples []sample
	cpu     float64 // cores of the server, on average
}

// sample is the server at one instant of the phase.
type sample struct {
	at         time.Duration
	resident   int64 // bytes
	goroutines float64
}

// run lets the phase last, and takes samples.
func (m *measure) run(ctx context.Context, length time.Duration) error {
	start, cpu := time.Now(), m.server.CPU()
	m.honest.phase.Store(int32(m.phase))
	defer m.honest.phase.Store(int32(warmUpPhase))
	end := time.NewTimer(length)
	defer end.Stop()
	tick := time.NewTicker(min(sampleEvery, length/12+1))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			m.cpu = (m.server.CPU() - cpu).Seconds() / time.Since(start).Seconds()
			return nil
		case <-tick.C:
			if err := m.take(time.Since(start)); err != nil {
				return err
			}
		}
	}
}

func (m *measure) take(at time.Duration) (err error) {
	s := sample{at: at}
	if s.resident, err = m.server.Resident(); err != nil {
		return err
	}
	if s.goroutines, err = m.server.Metric("go_goroutines"); err != nil {
		return err
	}
	m.samples = append(m.samples, s)
	if m.print {
		fmt.Printf("%8s  %6.1f MiB resident, %5.0f goroutines\n", at.Round(time.Second), mib(s.resident), s.goroutines)
	}
	return nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// growth compares resident memory with that after warmUp: the largest later sample
// over the mean of the first three, less one. peak is the largest of all samples.
func growth(all []sample, warmUp time.Duration) (growth float64, peak int64) {
	var first, largest, n int64
	for _, s := range all {
		peak = max(peak, s.resident)
		if s.at < warmUp {
			continue
		}
		if n++; n <= 3 {
			first += s.resident
		} else {
			largest = max(largest, s.resident)
		}
	}
	if n <= 3 {
		return 0, peak
	}
	return float64(largest)/(float64(first)/3) - 1, peak
}
