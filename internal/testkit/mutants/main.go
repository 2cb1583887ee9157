// Command mutants tests the tests: it puts one fault at a time into an engine and
// demands that some layer of the conformance kit, or a unit test, notices. Run it
// from the top of the module:
//
//	go run ./internal/testkit/mutants          # the memory engine, memory.txt
//	go run ./internal/testkit/mutants -redis   # the Redis engine, its scripts and clients, redis.txt
//
// A fault that fits no longer, that does not compile or that nobody notices makes the
// command fail. Files stay as they are: the go command is told to read others in
// their place.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	onRedis := flag.Bool("redis", false, "try the Redis engine; it needs redis-server")
	only := flag.String("only", "", "run only the mutants whose description or file contains this")
	all := flag.Bool("all", false, "ask all layers of tests, not only up to the first that notices")
	flag.Parse()
	s := &memory
	if *onRedis {
		s = &redis
	}
	if err := run(s, *only, *all); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries the mutants of the suite and prints a line for each. It fails if one
// survives or cannot be tried, after it has tried the others.
func run(s *suite, only string, all bool) error {
	mutants, err := s.mutants()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{suite: s, dir: dir, all: all}
	if caught, err := b.try(nil); err != nil {
		return err
	} else if len(caught) > 0 {
		return fmt.Errorf("the layers must pass without a mutant first, but %v failed:\n%s", caught, b.said)
	}
	tried, failed := 0, 0
	for i := range mutants {
		m := &mutants[i]
		if !strings.Contains(m.about+m.file, only) {
			continue
		}
		tried++
		start := time.Now()
		caught, err := b.try(m)
		verdict := strings.Join(caught, " ")
		switch {
		case err != nil:
			verdict = fmt.Sprintf("%s:%d: %v", s.file, m.line, err)
			failed++
		case len(caught) == 0:
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
