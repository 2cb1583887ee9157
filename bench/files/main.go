// Command files measures how fast the program reads: a policy file of 2,500 policies,
// traces that are replayed on the memory engine, and an access log of 10,000,000 lines
// that is replayed and suggests limits.
//
//	go run ./files
//	go run ./files -rounds 9
//	go run ./files -quick
//
// The program is built from this checkout. Each measurement is a process of its own. Times are
// processor time of the process, everything included from its start to its end.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
	"github.com/weirlimit/weir/bench/internal/weirserve"
)

// Sizes of the input.
const (
	policies = 2_500
	lines    = 1_000_000
	logLines = 10_000_000 // about 1.1 GB
)

func main() {
	quick := flag.Bool("quick", false, "one round; its numbers mean little")
	rounds := flag.Int("rounds", 5, "number of interleaved `rounds`")
	flag.Parse()
	if *quick {
		*rounds = 1
	}
	if err := measure(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "files:", err)
		os.Exit(2)
	}
}

// reading is one measured command.
type reading struct {
	name string
	args []string
	of   float64 // number of policies or lines that it reads
	took []float64
	most float64 // the largest resident memory, in MiB
}

// measure prints a table and the goals.
func measure(rounds int) error {
	dir, err := os.MkdirTemp("", "weir-bench-files-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := weirserve.Build(dir)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	files := map[string][]byte{
		"many.yaml": manyPolicies(), "one.yaml": []byte("version: 1\npolicies:\n  push: {limit: \"10 per minute per teacher, 3s apart\"}\n"),
		"clients.yaml": []byte("version: 1\npolicies:\n  clients: {limit: 10 per minute per ip}\n"),
		"hot.jsonl":    trace(1), "keys.jsonl": trace(10_000),
	}
	for name, text := range files {
		if err := os.WriteFile(in(name), text, 0o600); err != nil {
			return err
		}
	}
	if err := accessLog(in("access.log")); err != nil {
		return err
	}
	all := []*reading{
		{name: "validate, 2,500 policies", args: []string{"validate", in("many.yaml")}, of: policies},
		{name: "replay, 1 key", args: []string{"replay", "--policies", in("one.yaml"), "--decisions", os.DevNull, in("hot.jsonl")}, of: lines},
		{name: "replay, 10,000 keys", args: []string{"replay", "--policies", in("one.yaml"), "--decisions", os.DevNull, in("keys.jsonl")}, of: lines},
		{name: "replay, access log of 100,000 clients", args: []string{"replay", "--policies", in("clients.yaml"), "--key", "ip=remote_addr", "--json", in("access.log")}, of: logLines},
		{name: "suggest, access log of 100,000 clients", args: []string{"suggest", "--key", "ip=remote_addr", "--json", in("access.log")}, of: logLines},
	}
	for range rounds {
		for _, i := range rand.Perm(len(all)) {
			took, resident, err := run(program, all[i].args)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
			all[i].took = append(all[i].took, took.Seconds())
			if !(resident < all[i].most) {
				all[i].most = resident
			}
		}
	}
	table := report.Table("command", "seconds of processor time", "a second and core", "MiB resident")
	for _, r := range all {
		table.Row(r.name, report.Decimal(stat.Median(r.took), 2), report.Count(r.of/stat.Median(r.took)), report.Decimal(r.most, 0))
	}
	table.Print(os.Stdout)
	fmt.Println()
	report.Goals(os.Stdout, []report.Goal{
		{Text: "seconds for a file of 2,500 policies", Bound: 1, AtMost: true, Measured: stat.Median(all[0].took)},
		{Text: "millions of trace lines a second and core, 1 key", Bound: 1, Measured: lines / 1e6 / stat.Median(all[1].took)},
		{Text: "millions of trace lines a second and core, 10,000 keys", Bound: 1, Measured: lines / 1e6 / stat.Median(all[2].took)},
		{Text: "seconds for an access log of 10,000,000 lines", Bound: 20, AtMost: true, Measured: stat.Median(all[3].took)},
		{Text: "MiB resident for it", Bound: 512, AtMost: true, Measured: all[3].most},
		{Text: "seconds to suggest limits for it", Bound: 20, AtMost: true, Measured: stat.Median(all[4].took)},
		{Text: "MiB resident for that", Bound: 512, AtMost: true, Measured: all[4].most},
	})
	return nil
}

// run runs the program to its end on one core. It returns its processor time and its largest
// resident memory in MiB.
func run(program string, args []string) (took time.Duration, resident float64, err error) {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	resident = math.NaN()
	for {
		select {
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, &out)
			}
			return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), resident, err
		case <-time.After(20 * time.Millisecond):
			resident = peak(cmd.Process.Pid, resident)
		}
	}
}

// peak returns the largest resident memory of a process so far in MiB, or last if it has
// ended. The rusage of a child has that of its parent before exec in it.
func peak(pid int, last float64) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		if kib, err := strconv.ParseFloat(fields[0], 64); err == nil {
			return kib / 1024
		}
	}
	return last
}

// accessLog writes a combined log of a day: ordinary clients, and some that are busy.
func accessLog(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	at := time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)
	for i := range logLines {
		client := rand.IntN(100_000)
		if i%10 == 0 {
			client = rand.IntN(20)
		}
		fmt.Fprintf(w, "10.%d.%d.%d - - [%s] \"GET /search?q=%d HTTP/1.1\" 200 %d \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n", client>>16, client>>8&255, client&255,
			at.Add(time.Duration(i)*8640*time.Microsecond).Format("02/Jan/2006:15:04:05 -0700"), i, rand.IntN(100_000))
	}
	return w.Flush()
}

// manyPolicies returns a file of 2,500 policies, slightly below the largest allowed.
func manyPolicies() []byte {
	b := []byte("version: 1\npolicies:\n")
	for i := range policies {
		b = fmt.Appendf(b, "  policy-%d:\n    about: Policy %d of many.\n    limit: %d per minute per user, 3s apart\n", i, i, i+1)
	}
	return b
}

// trace returns checks over a number of keys, about a tenth of a millisecond apart.
func trace(keys int) []byte {
	at := int64(1_790_000_000_000_000)
	var b bytes.Buffer
	for range lines {
		at += rand.Int64N(200)
		fmt.Fprintf(&b, `{"at_us":%d,"policy":"push","key":{"teacher":"t%d"},"n":1,"op":"check"}`+"\n", at, rand.IntN(keys))
	}
	return b.Bytes()
}
