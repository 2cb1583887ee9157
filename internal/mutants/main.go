// Command mutants tests the tests: it puts one fault at a time into the memory
// engine and demands that some layer of the conformance kit, or a unit test,
// notices. Run it from the top of the module:
//
//	go run ./internal/mutants
//
// The faults stand in mutants.txt. A fault that fits no longer, that does not
// compile or that nobody notices makes the command fail. All this happens in a copy
// of the module.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

//go:embed mutants.txt
var list string

func main() {
	only := flag.String("only", "", "run only the mutants whose description or file contains this")
	flag.Parse()
	if err := run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries the mutants and prints a line for each. It fails if one survives.
func run(only string) error {
	mutants, err := parse(list)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := newBench(".", dir)
	if err != nil {
		return err
	}
	if caught, said, err := b.try(nil); err != nil {
		return err
	} else if len(caught) > 0 {
		return fmt.Errorf("the layers must pass without a mutant first, but %v failed:\n%s", caught, said)
	}
	tried, survivors := 0, 0
	for i := range mutants {
		m := &mutants[i]
		if !strings.Contains(m.about+m.file, only) {
			continue
		}
		tried++
		start := time.Now()
		caught, _, err := b.try(m)
		if err != nil {
			return fmt.Errorf("mutants.txt:%d: %s: %w", m.line, m.about, err)
		}
		verdict := strings.Join(caught, " ")
		if len(caught) == 0 {
			survivors++
			verdict = "SURVIVED"
		}
		fmt.Printf("%-82s %-38s %4.0fs\n", m.about, verdict, time.Since(start).Seconds())
	}
	fmt.Printf("%d mutants, %d caught\n", tried, tried-survivors)
	if survivors > 0 {
		return fmt.Errorf("%d survived; a test is missing", survivors)
	}
	return nil
}
