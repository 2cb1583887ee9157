package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy"
)

// builtIn is the source of policies without --policies.
const builtIn = "the built-in demonstration policies"

// policiesFlag adds --policies.
func policiesFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "policies", "p", "", policiesHelp)
	cmd.MarkFlagFilename("policies", "yaml", "yml")
}

// policySource is a policy file as it was read.
type policySource struct {
	file *policy.File
	name string // path of the file, or builtIn
	text []byte // nil for the built-in policies
}

// loadPolicies reads a policy file. If path is "", it returns the built-in
// policies and writes a note.
func loadPolicies(path string, stderr io.Writer) (policySource, error) {
	if path == "" {
		file := policy.Demo()
		file.Name = builtIn
		fmt.Fprintf(stderr, "weir: no --policies FILE, so these are %s: %s\n", builtIn, strings.Join(names(file), ", "))
		return policySource{file: file, name: builtIn}, nil
	}
	text, err := policy.ReadFile(path)
	if err != nil {
		return policySource{}, &failure{code: exitUsage, err: err}
	}
	file, err := policy.Parse(path, text)
	if err != nil {
		return policySource{}, &failure{code: exitUsage, err: err}
	}
	return policySource{file, path, text}, nil
}

// policy returns the policy of that name.
func (s *policySource) policy(name string) (*policy.Definition, error) {
	if p := s.file.Definition(name); p != nil {
		return p, nil
	}
	next := "its policies are " + listed(names(s.file))
	if near := nearest.Name(name, names(s.file)); near != "" {
		next = fmt.Sprintf("did you mean %s?", near)
	}
	return nil, usage(next, "%s has no policy %q", s.name, name)
}

func names(file *policy.File) []string {
	var all []string
	for _, p := range file.Policies {
		all = append(all, p.Name)
	}
	return all
}
