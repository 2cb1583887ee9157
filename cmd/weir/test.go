package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/testkit/policytest"
	"github.com/weirlimit/weir/policy"
)

func testCommand() *cobra.Command {
	var asJSON bool
	cmd := newCommand("test FILE", "Run the tests of a policy file", wantArgs(1, 1, "FILE"),
		func(cmd *cobra.Command, args []string) error { return testFile(cmd, args[0], asJSON) })
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as one JSON object")
	return cmd
}

// testResults is the output of weir test --json.
type testResults struct {
	File   string       `json:"file"`
	OK     bool         `json:"ok"`
	Tests  []testResult `json:"tests"`
	failed int
}

type testResult struct {
	Name   string `json:"name"`
	Policy string `json:"policy"`
	Line   int    `json:"line"` // of the test or, if it failed, of the step
	OK     bool   `json:"ok"`
	Got    string `json:"got,omitempty"` // of a failed test: the result and the expectation
}

func testFile(cmd *cobra.Command, path string, asJSON bool) error {
	file, err := policy.Load(path)
	if err != nil {
		return err
	}
	results := testResults{File: path, Tests: []testResult{}}
	for _, t := range file.Tests {
		r := testResult{Name: t.Name, Policy: t.Policy.Name, Line: t.Line, OK: true}
		failed, err := policytest.Run(t)
		if err != nil {
			return usage("", "%s: %s: %w", path, t.Name, err)
		}
		if failed != nil {
			r.OK, r.Line, r.Got = false, failed.Line, failed.Problem
			results.failed++
		}
		results.Tests = append(results.Tests, r)
	}
	results.OK = results.failed == 0
	if err := results.print(cmd, asJSON); err != nil || results.OK {
		return err
	}
	return errDenied
}

func (r *testResults) print(cmd *cobra.Command, asJSON bool) error {
	out := printable{cmd.OutOrStdout()}
	if asJSON {
		return printJSON(out, r)
	}
	for _, t := range r.Tests {
		if t.OK {
			fmt.Fprintf(out, "ok    %s\n", t.Name)
		} else {
			fmt.Fprintf(out, "FAIL  %s\n      %s:%d: %s\n", t.Name, r.File, t.Line, t.Got)
		}
	}
	var err error
	switch {
	case len(r.Tests) == 0:
		_, err = fmt.Fprintf(out, "%s: no tests; weir test -h shows how to write one\n", r.File)
	case r.OK:
		_, err = fmt.Fprintf(out, "%s: %s passed\n", r.File, counted(len(r.Tests), "test", "tests"))
	default:
		_, err = fmt.Fprintf(out, "%s: %d of %s failed\n", r.File, r.failed, counted(len(r.Tests), "test", "tests"))
	}
	return err
}
