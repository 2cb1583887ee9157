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
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"
)

// storeVariable names the environment variable that holds the URL.
const storeVariable = "REDIS_URL"

// options are the flags.
type options struct {
	store     string
	processes int
	callers   int // of each process
	max       int64
	window    time.Duration
	length    time.Duration
	worker    string // run name, in a worker process; else ""
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal("processes: ", err)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.worker != "" {
		return work(context.Background(), o, in, out)
	}
	return oversee(o, out)
}

func parse(args []string) (*options, error) {
	var o options
	f := flag.NewFlagSet("processes", flag.ContinueOnError)
	f.StringVar(&o.store, "store", "", "the `URL` of Redis; default: $"+storeVariable+", or redis://127.0.0.1:6379")
	f.IntVar(&o.processes, "processes", 4, "`number` of processes that share the limit")
	f.IntVar(&o.callers, "callers", 8, "`number` of callers in each process")
	f.Int64Var(&o.max, "max", 50, "units per window")
	f.DurationVar(&o.window, "window", 500*time.Millisecond, "the rolling window")
	f.DurationVar(&o.length, "for", 3*time.Second, "duration of the run")
	f.StringVar(&o.worker, "worker", "", "for the processes themselves")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || o.processes < 1 || o.callers < 1 {
		return nil, fmt.Errorf("only flags are allowed, with at least one process and one caller; -h lists them")
	}
	if o.store == "" {
		o.store = os.Getenv(storeVariable)
	}
	if o.store == "" {
		o.store = "redis://127.0.0.1:6379"
	}
	return &o, nil
}
