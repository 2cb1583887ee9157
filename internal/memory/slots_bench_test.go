//go:build unix

package memory

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

// BenchmarkSlots measures decisions by where the slot of a key and its entries are: in a cache of the
// processor or in memory. It compares two forms of package keytable, each as a test binary (go test
// -c), that run in turn with -test.cpu 1 and the same -test.benchtime. It also reports the time of
// the processor, which other programs disturb less.
func BenchmarkSlots(b *testing.B) {
	workloads := []struct {
		name    string
		keys    int
		window  time.Duration
		entries int // of each key at the beginning
	}{
		{"one key", 1, time.Millisecond, 1},
		{"10000 keys, few entries", 10_000, 10 * time.Millisecond, 1},
		{"10000 keys, 10 entries", 10_000, time.Hour, 10},
		{"30000 keys, 100 entries", 30_000, time.Hour, 100},
		{"1000000 keys, 1 entry", 1_000_000, time.Hour, 1},
	}
	for _, w := range workloads {
		b.Run(w.name, func(b *testing.B) {
			users := make([]string, w.keys)
			for i := range users {
				users[i] = fmt.Sprintf("user:%011d", i)
			}
			l := newLimiter(policy{Name: "p", Limits: []limit{
				{Max: 1 << 40, Window: w.window, By: []string{"user"}},
			}})
			rules := l.memory.Rules(l.rules)
			decide := func(i int) {
				var d engine.Result
				k := K(users[i*7919%w.keys])
				if rules.AllowFast(&k, 1, &d) {
					return
				}
				if err := rules.Allow(&k, 1, &d); err != nil {
					b.Fatal(err)
				}
			}
			for i := range w.keys * w.entries {
				decide(i)
			}
			before := processorTime()
			for i := 0; b.Loop(); i++ {
				decide(i)
			}
			b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime returns the time for which this process has had a processor.
func processorTime() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
