// Command mutants tests the tests. It puts one fault at a time into an engine, and a
// layer of the conformance kit or a unit test must fail. Run it from the top of the
// module:
//
//	go run ./internal/testkit/mutants          # the memory engine, memory.txt
//	go run ./internal/testkit/mutants -batches # batches of calls in memory and over HTTP, batches.txt
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
	"strings"
	"time"
)

func main() {
	ofBatches := flag.Bool("batches", false, "run the mutants of batches")
	onRedis := flag.Bool("redis", false, "run the mutants of the Redis engine; needs redis-server")
	only := flag.String("only", "", "run only mutants with this text in their description or file")
	flag.Parse()
	s := &memory
	switch {
	case *ofBatches:
		s = &batches
	case *onRedis:
		s = &redis
	}
	if err := s.run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run runs the mutants of the suite and prints a line for each. After the last it
// returns an error if one survived or could not run.
func (s *suite) run(only string) (err error) {
	mutants, err := s.mutants()
	if err != nil {
		return err
	}
	if s.temp, err = os.MkdirTemp("", "weir-mutants"); err != nil {
		return err
	}
	defer os.RemoveAll(s.temp)
	if caught, output, err := s.try(nil); err != nil {
		return err
	} else if caught != "" {
		return fmt.Errorf("the layers must pass without a mutant first, but %s failed:\n%s", caught, output)
	}
	tried, failed := 0, 0
	for i := range mutants {
		m := &mutants[i]
		if !strings.Contains(m.about+m.file, only) {
			continue
		}
		tried++
		start := time.Now()
		verdict, _, err := s.try(m)
		switch {
		case err != nil:
			verdict = fmt.Sprintf("%s:%d: %v", s.file, m.line, err)
			failed++
		case verdict == "":
			verdict = "SURVIVED"
			failed++
		}
		fmt.Printf("%-88s %-38s %4.0fs\n", m.about, verdict, time.Since(start).Seconds())
	}
	fmt.Printf("%d mutants, %d caught\n", tried, tried-failed)
	if failed > 0 {
		return fmt.Errorf("%d were not caught; a test is missing, or the lines of a mutant", failed)
	}
	return nil
}
