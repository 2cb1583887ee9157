package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/testkit/policytest"
	"github.com/weirlimit/weir/policy"
)

func testCommand() *cobra.Command {
	cmd := newCommand("test FILE", "Run the tests of a policy file", wantArgs(1, 1, "FILE"), testFile)
	return withJSON(cmd, "print the results as one JSON object")
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
	Line   int    `json:"line"` // of the test, or of the step that failed
	OK     bool   `json:"ok"`
	Got    string `json:"got,omitempty"` // the result and the expectation of a failed test
}

// testFile runs the tests of a policy file and prints the results.
func testFile(cmd *cobra.Command, args []string) error {
	path := args[0]
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
			r.OK = false
			r.Line = failed.Line
			r.Got = failed.Problem
			results.failed++
		}
		results.Tests = append(results.Tests, r)
	}
	results.OK = results.failed == 0
	if err := printResult(cmd, cmd.OutOrStdout(), &results, results.write); err != nil {
		return err
	}
	if !results.OK {
		return errDenied
	}
	return nil
}

// write writes the results as text.
func (r *testResults) write(b *strings.Builder) {
	for _, t := range r.Tests {
		if t.OK {
			fmt.Fprintf(b, "ok    %s\n", t.Name)
		} else {
			fmt.Fprintf(b, "FAIL  %s\n      %s:%d: %s\n", t.Name, r.File, t.Line, t.Got)
		}
	}
	all := counted(len(r.Tests), "test", "tests")
	switch {
	case len(r.Tests) == 0:
		fmt.Fprintf(b, "%s: no tests; weir test -h shows how to write one\n", r.File)
	case r.OK:
		fmt.Fprintf(b, "%s: %s passed\n", r.File, all)
	default:
		fmt.Fprintf(b, "%s: %d of %s failed\n", r.File, r.failed, all)
	}
}
