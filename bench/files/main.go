// Command files measures how fast the program reads: a policy file of 10,000 policies,
// and traces that are replayed on the memory engine.
//
//	go run ./files
//	go run ./files -rounds 9
//	go run ./files -quick
//
// The program is built from this checkout, and run anew for each measurement. Times are
// processor time of the process, everything included from its start to its end.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/bench/internal/report"
	"github.com/weirlimit/weir/bench/internal/stat"
	"github.com/weirlimit/weir/bench/internal/weirserve"
)

// Sizes of the input.
const (
	policies = 10_000
	lines    = 1_000_000
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
		"hot.jsonl": trace(1), "keys.jsonl": trace(10_000),
	}
	for name, text := range files {
		if err := os.WriteFile(in(name), text, 0o600); err != nil {
			return err
		}
	}
	all := []*reading{
		{name: "validate, 10,000 policies", args: []string{"validate", in("many.yaml")}, of: policies},
		{name: "replay, 1 key", args: []string{"replay", "--policies", in("one.yaml"), "--decisions", os.DevNull, in("hot.jsonl")}, of: lines},
		{name: "replay, 10,000 keys", args: []string{"replay", "--policies", in("one.yaml"), "--decisions", os.DevNull, in("keys.jsonl")}, of: lines},
	}
	for range rounds {
		for _, i := range rand.Perm(len(all)) {
			took, err := run(program, all[i].args)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
			all[i].took = append(all[i].took, took.Seconds())
		}
	}
	table := report.Table("command", "seconds of processor time", "a second and core")
	for _, r := range all {
		table.Row(r.name, report.Decimal(stat.Median(r.took), 2), report.Count(r.of/stat.Median(r.took)))
	}
	table.Print(os.Stdout)
	fmt.Println()
	report.Goals(os.Stdout, []report.Goal{
		{Text: "seconds for a file of 10,000 policies", Bound: 1, AtMost: true, Measured: stat.Median(all[0].took)},
		{Text: "millions of trace lines a second and core, 1 key", Bound: 1, Measured: lines / 1e6 / stat.Median(all[1].took)},
		{Text: "millions of trace lines a second and core, 10,000 keys", Bound: 1, Measured: lines / 1e6 / stat.Median(all[2].took)},
	})
	return nil
}

// run runs the program to its end and returns its processor time.
func run(program string, args []string) (time.Duration, error) {
	cmd := exec.Command(program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// manyPolicies returns a file of 10,000 policies, slightly below the largest allowed.
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
