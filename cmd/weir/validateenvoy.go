package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/front/envoyconf"
)

// validatedEnvoy is what weir validate --envoy --json prints of a good configuration.
type validatedEnvoy struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"` // true
	Files    int      `json:"files"`
	Domains  []string `json:"domains"`
	Rules    int      `json:"rules"`
	Warnings []string `json:"warnings"` // what is in it and has no effect
}

// validateEnvoy checks a configuration of Envoy's reference rate limit service: a file,
// or a directory of them.
func validateEnvoy(cmd *cobra.Command, path string, o envoyconf.Options, asJSON bool) error {
	out := cmd.OutOrStdout()
	c, err := envoyconf.Load(path, o)
	if err != nil {
		var e *envoyconf.Error
		if asJSON && errors.As(err, &e) {
			printJSON(out, invalid{e.File, false, e.Line, e.Column, e.Problem, e.Next})
		}
		return &failure{code: exitUsage, err: err}
	}
	v := validatedEnvoy{path, true, c.Files, []string{}, c.Rules(), append([]string{}, c.Warnings...)}
	for _, d := range c.Domains {
		v.Domains = append(v.Domains, d.Name)
	}
	if asJSON {
		return printJSON(out, v)
	}
	return v.print(printable{out})
}

// print writes the result for a person.
func (v *validatedEnvoy) print(out io.Writer) error {
	text := fmt.Sprintf("%s: %s, %s, %s\n", v.File,
		counted(v.Files, "file", "files"), counted(len(v.Domains), "domain", "domains"), counted(v.Rules, "rule", "rules"))
	for _, warning := range v.Warnings {
		text += "  note: " + warning + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}
