package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/policy"
)

func validateCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a policy file",
		Long: `Validate reads a policy file as weir serve would and reports the first thing wrong
with it: file, line, column, the line itself, and what would be right. The exit
code is 0 for a good file and 2 for any other.`,
		Example: `  weir validate weir.yaml
  weir validate --json weir.yaml`,
		Args: wantArgs(1, 1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return validate(cmd, args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// validated is what weir validate --json prints of a good file.
type validated struct {
	File     string            `json:"file"`
	OK       bool              `json:"ok"` // true
	Policies int               `json:"policies"`
	Limits   int               `json:"limits"`
	Names    []validatedPolicy `json:"names"`
}

type validatedPolicy struct {
	Policy string   `json:"policy"`
	Line   int      `json:"line"`
	Limits []string `json:"limits"`
}

// invalid is what it prints of a bad one.
type invalid struct {
	File    string `json:"file"`
	OK      bool   `json:"ok"`     // false
	Line    int    `json:"line"`   // from 1; 0 when the file as a whole is meant
	Column  int    `json:"column"` // from 1, in characters
	Problem string `json:"problem"`
	Next    string `json:"next"`
}

func validate(cmd *cobra.Command, path string, asJSON bool) error {
	out := cmd.OutOrStdout()
	file, err := policy.Load(path)
	if err != nil {
		var e *policy.Error
		if asJSON && errors.As(err, &e) {
			json.NewEncoder(out).Encode(invalid{path, false, e.Line, e.Column, e.Problem, e.Next})
		}
		return &failure{code: exitUsage, err: err}
	}
	v := describe(path, file)
	if asJSON {
		return json.NewEncoder(out).Encode(v)
	}
	_, err = fmt.Fprintf(out, "%s: %s, %s\n", path,
		counted(v.Policies, "policy", "policies"), counted(v.Limits, "limit", "limits"))
	return err
}

func describe(path string, file *policy.File) validated {
	v := validated{File: path, OK: true, Policies: len(file.Policies), Names: []validatedPolicy{}}
	for _, p := range file.Policies {
		row := validatedPolicy{Policy: p.Name, Line: p.Line}
		for _, l := range p.Limits {
			row.Limits = append(row.Limits, l.Name)
		}
		v.Limits += len(p.Limits)
		v.Names = append(v.Names, row)
	}
	return v
}
