// Package contest runs contestants side by side. Each measurement has its own process, so
// that no contestant inherits another's heap. Rounds are interleaved, so that a slow
// period of the machine affects all contestants.
package contest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/weirlimit/weir/bench/internal/stat"
)

// Metrics are the measurements of one run of one contestant, by name.
type Metrics map[string]float64

// Workload is one thing to measure.
type Workload struct {
	Name        string
	About       string   // one sentence for the reader of the table
	Contestants []string // ratios refer to the first
	MaxRounds   int      // most rounds, if more would add no information; 0 = all
	Run         func(contestant string) Metrics
}

// Timeout ends a contestant that hangs. A program with longer workloads sets another one.
var Timeout = 3 * time.Minute

// Child runs one contestant in this process and writes its metrics to w. The child
// processes of Play call it.
func Child(workloads []Workload, workload, contestant string, w io.Writer) error {
	i := slices.IndexFunc(workloads, func(x Workload) bool { return x.Name == workload })
	if i < 0 {
		return fmt.Errorf("no workload %q", workload)
	}
	return json.NewEncoder(w).Encode(workloads[i].Run(contestant))
}

// Play runs every contestant of every workload, rounds times. Each run is a child process:
// this program with args, then the workload and the contestant. Within a round the order
// is shuffled, with the same seed in every run. Progress and errors of children go to
// stderr.
func Play(workloads []Workload, rounds int, args []string) Results {
	results := Results{}
	order := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		for _, w := range workloads {
			if w.MaxRounds > 0 && round >= w.MaxRounds {
				continue
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, rounds, w.Name)
			contestants := slices.Clone(w.Contestants)
			order.Shuffle(len(contestants), func(i, j int) {
				contestants[i], contestants[j] = contestants[j], contestants[i]
			})
			for _, c := range contestants {
				m, err := spawn(append(slices.Clone(args), w.Name, c))
				if err != nil {
					fmt.Fprintf(os.Stderr, "%s, %s: %v\n", w.Name, c, err)
				}
				results.add(w.Name, c, m)
			}
		}
	}
	return results
}

func spawn(args []string) (Metrics, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var m Metrics
	return m, json.Unmarshal(out, &m)
}

// Results are the metrics of every run, by workload and contestant, in the order of the rounds.
// A run that failed has no metrics.
type Results map[string]map[string][]Metrics

func (r Results) add(workload, contestant string, m Metrics) {
	if r[workload] == nil {
		r[workload] = map[string][]Metrics{}
	}
	r[workload][contestant] = append(r[workload][contestant], m)
}

// Values returns one metric of every round, NaN where it is missing.
func (r Results) Values(workload, contestant, metric string) []float64 {
	var values []float64
	for _, m := range r[workload][contestant] {
		v, ok := m[metric]
		if !ok {
			v = math.NaN()
		}
		values = append(values, v)
	}
	return values
}

// Median returns the median of a metric over the rounds, NaN if there is none.
func (r Results) Median(workload, contestant, metric string) float64 {
	values := slices.DeleteFunc(r.Values(workload, contestant, metric), math.IsNaN)
	return stat.Median(values)
}

// Ratio returns the median over the rounds of the contestant's metric divided by that of
// base in the same round.
func (r Results) Ratio(workload, contestant, base, metric string) float64 {
	return stat.Ratio(r.Values(workload, contestant, metric), r.Values(workload, base, metric))
}
