// Command mutants tests the tests. It puts one fault at a time into an engine, and a
// layer of the conformance kit or a unit test must fail. Run it from the top of the
// module:
//
//	go run ./internal/testkit/mutants          # the memory engine, memory.txt
//	go run ./internal/testkit/mutants -batches # batches of calls in memory and over HTTP, batches.txt
//	go run ./internal/testkit/mutants -library # reservations and blocks of the library, library.txt
//	go run ./internal/testkit/mutants -redis   # the Redis engine, its scripts and clients, redis.txt
//
// The command fails if the lines of a mutant no longer exist, if a mutant does not
// compile, or if all tests pass with it. Source files are not changed: the go command
// reads the mutant through an overlay.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	ofBatches := flag.Bool("batches", false, "run the mutants of batches")
	ofLibrary := flag.Bool("library", false, "run the mutants of the library")
	onRedis := flag.Bool("redis", false, "run the mutants of the Redis engine; needs redis-server")
	only := flag.String("only", "", "run only mutants with this text in their description or file")
	skip := flag.Int("skip", 0, "leave out so many mutants at the start of the list, to go on with a run that was stopped")
	parallel := flag.Int("parallel", runtime.NumCPU(), "run this many mutants side by side")
	flag.Parse()
	s := &memory
	switch {
	case *ofBatches:
		s = &batches
	case *ofLibrary:
		s = &library
	case *onRedis:
		s = &redis
	}
	if err := s.run(*only, *skip, max(*parallel, 1)); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run runs the mutants of the suite, several side by side, and prints a line for each. After
// the last it returns an error if one survived or could not run.
func (s *suite) run(only string, skip, parallel int) error {
	mutants, err := s.mutants()
	if err != nil {
		return err
	}
	chosen := mutants[:0]
	for _, m := range mutants[min(skip, len(mutants)):] {
		if strings.Contains(m.about+m.file, only) {
			chosen = append(chosen, m)
		}
	}
	temp, err := os.MkdirTemp("", "weir-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if caught, output, err := s.try(nil, temp); err != nil {
		return err
	} else if caught != "" {
		return fmt.Errorf("the layers must pass without a mutant first, but %s failed:\n%s", caught, output)
	}
	var failed atomic.Int64
	var workers sync.WaitGroup
	next := make(chan *mutant)
	for range parallel {
		dir, err := os.MkdirTemp(temp, "")
		if err != nil {
			return err
		}
		workers.Go(func() {
			for m := range next {
				if !s.report(m, dir) {
					failed.Add(1)
				}
			}
		})
	}
	for i := range chosen {
		next <- &chosen[i]
	}
	close(next)
	workers.Wait()
	fmt.Printf("%d mutants, %d caught\n", len(chosen), int64(len(chosen))-failed.Load())
	if failed.Load() > 0 {
		return fmt.Errorf("%d were not caught; a test is missing, or the lines of a mutant", failed.Load())
	}
	return nil
}

// report runs one mutant in the directory, prints its line, and reports whether it was caught.
func (s *suite) report(m *mutant, dir string) (caught bool) {
	start := time.Now()
	verdict, _, err := s.try(m, dir)
	switch {
	case err != nil:
		verdict = fmt.Sprintf("%s:%d: %v", s.file, m.line, err)
	case verdict == "":
		verdict = "SURVIVED"
	default:
		caught = true
	}
	fmt.Printf("%-88s %-38s %4.0fs\n", m.about, verdict, time.Since(start).Seconds())
	return caught
}
