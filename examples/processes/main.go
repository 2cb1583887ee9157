// Command processes starts itself several times. The processes share one limit on one
// Redis and call it as fast as they can. The first process audits them: from the times of
// call and return it computes the most grants in any window, and fails if that is more
// than the limit.
//
//	go run ./examples/processes -store redis://127.0.0.1:6379 -processes 8
//
// REDIS_URL may hold the URL instead, so that no process list shows its password.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// options are the flags.
type options struct {
	store     string
	processes int
	callers   int // callers in each process
	max       int64
	window    time.Duration
	length    time.Duration
	worker    string // run name, in a worker process; else ""
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal("processes: ", err)
	}
}

func run(args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("processes", flag.ContinueOnError)
	f.StringVar(&o.store, "store", "", "the `URL` of Redis; default: $REDIS_URL, or redis://127.0.0.1:6379")
	f.IntVar(&o.processes, "processes", 4, "`number` of processes that share the limit")
	f.IntVar(&o.callers, "callers", 8, "`number` of callers in each process")
	f.Int64Var(&o.max, "max", 50, "units per window")
	f.DurationVar(&o.window, "window", 500*time.Millisecond, "the rolling window")
	f.DurationVar(&o.length, "for", 3*time.Second, "duration of the run")
	f.StringVar(&o.worker, "worker", "", "for the processes themselves")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || o.processes < 1 || o.callers < 1 {
		return fmt.Errorf("only flags are allowed, with at least one process and one caller; -h lists them")
	}
	o.store = cmp.Or(o.store, os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379")
	if o.worker != "" {
		return work(&o, out)
	}
	return oversee(&o, args, out)
}

// oversee runs the workers with the same arguments and audits their reports.
func oversee(o *options, args []string, out io.Writer) error {
	_, end, err := limiter(o)
	if err != nil {
		return err // once, instead of in every process
	}
	end()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args = append([]string{"-worker", strconv.FormatInt(time.Now().UnixMicro(), 36)}, args...) // each run has a history of its own
	fmt.Fprintf(out, "%d processes with %d callers each share %d per %v\n", o.processes, o.callers, o.max, o.window)
	reports, errs := make([]report, o.processes), make([]error, o.processes)
	var workers sync.WaitGroup
	for i := range o.processes {
		workers.Go(func() {
			cmd := exec.Command(self, args...)
			cmd.Stderr = os.Stderr
			text, err := cmd.Output()
			errs[i] = cmp.Or(err, json.Unmarshal(text, &reports[i]))
		})
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("a process did not report; its error stands above: %w", err)
	}
	var all []grant
	for i, r := range reports {
		fmt.Fprintf(out, "  process %d  %7d attempts, %5d granted\n", i+1, r.Attempts, len(r.Grants))
		all = append(all, r.Grants...)
	}
	return audit(o, all, out)
}
