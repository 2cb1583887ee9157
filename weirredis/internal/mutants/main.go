// Command mutants tests the tests of the Redis engine: it puts one fault at a time
// into its scripts or its Go code and demands that a test notices. Run it from the
// top of the module:
//
//	go run ./weirredis/internal/mutants
//
// The faults stand in mutants.txt. One that fits no longer, that does not compile
// or that nobody notices makes the command fail. Files stay as they are: the go
// command is told to read others in their place.
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
	all := flag.Bool("all", false, "ask all layers of tests, not only up to the first that notices")
	flag.Parse()
	if err := run(*only, *all); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries the mutants and prints a line for each. It fails if one survives.
func run(only string, all bool) error {
	mutants, err := parse(list)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weirredis-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, all: all}
	if caught, err := b.try(nil); err != nil {
		return err
	} else if len(caught) > 0 {
		return fmt.Errorf("the tests must pass without a mutant first, but %v failed:\n%s", caught, b.said)
	}
	tried, survivors := 0, 0
	for i := range mutants {
		m := &mutants[i]
		if !strings.Contains(m.about+m.file, only) {
			continue
		}
		tried++
		start := time.Now()
		caught, err := b.try(m)
		if err != nil {
			return fmt.Errorf("mutants.txt:%d: %s: %w", m.line, m.about, err)
		}
		verdict := strings.Join(caught, " ")
		if len(caught) == 0 {
			survivors++
			verdict = "SURVIVED"
		}
		fmt.Printf("%-88s %-30s %4.0fs\n", m.about, verdict, time.Since(start).Seconds())
	}
	fmt.Printf("%d mutants, %d caught\n", tried, tried-survivors)
	if survivors > 0 {
		return fmt.Errorf("%d survived; a test is missing", survivors)
	}
	return nil
}
