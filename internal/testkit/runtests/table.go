package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var tiers = []string{"quick", "test", "check"}

// runRecord is the last run of a tier, a file in bin/tests.
type runRecord struct {
	Skipped  int
	Packages map[string]*record
}

// record is the line of a package in the table.
type record struct {
	Seconds float64
	Needs   []string
}

// record returns the record of a package.
func (r *results) record(pkg string) *record {
	if r.packages[pkg] == nil {
		r.packages[pkg] = &record{}
	}
	return r.packages[pkg]
}

func (p *record) need(thing string) {
	if !slices.Contains(p.Needs, thing) {
		p.Needs = append(p.Needs, thing)
	}
}

func file(tier string) string { return filepath.Join("bin", "tests", tier+".json") }

// load returns the last run of a tier; it is empty if there is none.
func load(tier string) runRecord {
	var last runRecord
	if b, err := os.ReadFile(file(tier)); err == nil {
		json.Unmarshal(b, &last) // a broken file counts as none
	}
	if last.Packages == nil {
		last.Packages = map[string]*record{}
	}
	return last
}

// save stores the run. Packages with a cached result keep their last record.
func (r *results) save(tier string, last runRecord) error {
	for name, p := range r.packages {
		if p.Seconds > 0 {
			last.Packages[name] = p
		}
	}
	last.Skipped = r.skipped
	b, err := json.MarshalIndent(last, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file(tier)), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file(tier), b, 0o666)
}

// printTable prints each package with its needs and its seconds in each tier.
func printTable(w io.Writer) error {
	needs, seconds := map[string]*record{}, map[string][]string{}
	for i, tier := range tiers {
		for name, p := range load(tier).Packages {
			if needs[name] == nil {
				needs[name], seconds[name] = &record{}, make([]string, len(tiers))
			}
			seconds[name][i] = fmt.Sprintf("%.1f", p.Seconds)
			for _, thing := range p.Needs {
				needs[name].need(thing)
			}
		}
	}
	if len(needs) == 0 {
		return errors.New("no run is recorded in bin/tests: run make quick, make test and make check first")
	}
	fmt.Fprintf(w, "| package | needs | %s |\n| --- | --- | ---: | ---: | ---: |\n", strings.Join(tiers, " | "))
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		slices.Sort(needs[name].Needs)
		fmt.Fprintf(w, "| %s | %s | %s |\n", name, strings.Join(needs[name].Needs, ", "), strings.Join(seconds[name], " | "))
	}
	return nil
}
