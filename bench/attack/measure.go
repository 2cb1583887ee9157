package main

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// run takes samples for the duration of the phase.
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

// growth is the growth of resident memory after warmUp: the largest median of three
// neighbouring samples divided by the first such median, minus 1. The median ignores the
// instant of a reload; peak, the largest of all samples, includes it.
func growth(all []sample, warmUp time.Duration) (growth float64, peak int64) {
	var medians []int64
	for i, s := range all {
		peak = max(peak, s.resident)
		if i >= 2 && all[i-2].at >= warmUp {
			three := []int64{all[i-2].resident, all[i-1].resident, s.resident}
			slices.Sort(three)
			medians = append(medians, three[1])
		}
	}
	if len(medians) == 0 {
		return math.NaN(), peak
	}
	return float64(slices.Max(medians))/float64(medians[0]) - 1, peak
}
