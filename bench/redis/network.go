package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/pace"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/redisserver"
	"github.com/weirlimit/weir/bench/internal/report"
)

// distance is a load on a server with an append-only file, behind a network.
type distance struct {
	trip    time.Duration // the time of a round trip, at least
	callers int
}

func distances() []distance {
	return []distance{{500 * time.Microsecond, 64}, {500 * time.Microsecond, 512}, {2 * time.Millisecond, 64}, {2 * time.Millisecond, 512}}
}

// shares of a contestant's own best rate, in per cent, at which requests are also offered:
// users never see the latency of a server at full load.
var shares = []int{25, 50, 80}

// Measurements at one of the shares.
func p50At(share int) string { return fmt.Sprintf("p50_us_at_%d", share) }
func p99At(share int) string { return fmt.Sprintf("p99_us_at_%d", share) }

func (d distance) name() string { return fmt.Sprintf("round trip %v, %d callers", d.trip, d.callers) }

// network are the workloads with a network.
func network() []contest.Workload {
	var all []contest.Workload
	for _, d := range distances() {
		all = append(all, contest.Workload{Name: d.name(), Contestants: names(), Run: d.run})
	}
	return all
}

// run measures the best rate of a contestant, where every caller sends one request after the
// other. Then it measures the latency at shares of that rate.
func (d distance) run(contestant string) contest.Metrics {
	s := must(redisserver.Start("--appendonly", "yes", "--appendfsync", "everysec"))
	defer s.Stop()
	relayed, stop := startRelay(s.Addr, d.trip)
	defer stop()
	many := load{shapes()[0], d.callers}
	l := must(must(redispeers.Named(contestant)).Open(relayed, many.limit, many.window))
	defer l.Close()
	keys := makeKeys(many.keys())

	tallies := make([]tally, d.callers)
	many.drive(l, keys, tallies, scale.warming)
	clear(tallies)
	many.drive(l, keys, tallies, scale.running)
	sum := total(tallies)
	best := float64(sum.n()) / scale.running.Seconds()
	m := contest.Metrics{perSecond: best, p50: sum.times.Quantile(0.5) / 1000, p99: sum.times.Quantile(0.99) / 1000}
	failures, n := sum.failed, sum.n()
	for _, share := range shares {
		times, lost := pace.Offer(best*float64(share)/100, scale.running, func(r uint64) error {
			_, err := l.Allow(ctx, keys[r%uint64(len(keys))])
			return err
		})
		m[p50At(share)], m[p99At(share)] = times.Quantile(0.5)/1000, times.Quantile(0.99)/1000
		failures, n = failures+lost, n+times.N()
	}
	m[granted], m[failed] = float64(sum.granted)/float64(sum.n()), float64(failures)/float64(n)
	return m
}

// startRelay starts a relay to the server in a process of its own, so that its processor time
// and heap are not counted for the contestant.
func startRelay(server string, trip time.Duration) (addr string, stop func()) {
	cmd := exec.Command(must(os.Executable()), "-relay", trip.String(), "-server", server)
	cmd.Stderr = os.Stderr
	in := must(cmd.StdinPipe()) // its end ends the relay, also if this process is killed
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	line := must(bufio.NewReader(out).ReadString('\n'))
	return strings.TrimSpace(line), func() {
		in.Close()
		cmd.Wait()
	}
}

// networkTables print the results with a network.
func (p page) networkTables(w io.Writer) {
	for _, d := range distances() {
		if !p.played(d.name()) {
			continue
		}
		heading(w, strings.ToUpper(d.name()[:1])+d.name()[1:])
		fmt.Fprintf(w, "An append-only file with everysec, and a relay that delays every byte by %v each way. The relay takes processor time for each call. ", d.trip/2)
		fmt.Fprintf(w, "The ratio to %s, decisions a second, and the latency are those of callers that send one request after the other. ", redispeers.RedisRate)
		fmt.Fprint(w, "The further columns are the latency, p50; p99 in µs, at a share of the contestant's own best rate.\n\n")
		head := []string{"contestant", "ratio", "decisions/s", "p50 µs", "p99 µs"}
		for _, share := range shares {
			head = append(head, fmt.Sprintf("at %d %%", share))
		}
		table := report.Table(head...)
		for _, c := range names() {
			get := func(metric string) float64 { return p.results.Median(d.name(), c, metric) }
			row := []string{c + p.marks(d.name(), c, 1), report.Decimal(p.results.Ratio(d.name(), c, redispeers.RedisRate, perSecond), 2),
				report.Count(get(perSecond)), micros(get(p50)), micros(get(p99))}
			for _, share := range shares {
				row = append(row, micros(get(p50At(share)))+"; "+micros(get(p99At(share))))
			}
			table.Row(row...)
		}
		table.Print(w)
	}
}
