package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy"
)

const builtIn = "the built-in demonstration policies"

// policiesFlag adds --policies.
func policiesFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "policies", "p", "", "the policy `FILE`, such as weir.yaml")
	cmd.MarkFlagFilename("policies", "yaml", "yml")
}

// loadPolicies reads the policy file, or takes the built-in policies and says so
// when path is "". source names where they are from.
func loadPolicies(path string, stderr io.Writer) (file *policy.File, source string, err error) {
	file, source, _, err = readPolicies(path, stderr)
	return file, source, err
}

// readPolicies is loadPolicies that also returns what the file holds.
func readPolicies(path string, stderr io.Writer) (file *policy.File, source string, src []byte, err error) {
	if path == "" {
		file := policy.Demo()
		fmt.Fprintf(stderr, "weir: no --policies FILE, so these are %s: %s\n", builtIn, strings.Join(names(file), ", "))
		return file, builtIn, nil, nil
	}
	if src, err = policy.ReadFile(path); err == nil {
		file, err = policy.Parse(path, src)
	}
	if err != nil {
		return nil, "", nil, &failure{code: exitUsage, err: err}
	}
	return file, path, src, nil
}

// findPolicy returns the policy of that name.
func findPolicy(file *policy.File, source, name string) (*policy.Policy, error) {
	if p := file.Policy(name); p != nil {
		return p, nil
	}
	if near := nearest.Name(name, names(file)); near != "" {
		return nil, usage(fmt.Sprintf("did you mean %s?", near), "%s has no policy %q", source, name)
	}
	return nil, usage("its policies are "+listed(names(file)), "%s has no policy %q", source, name)
}

func names(file *policy.File) []string {
	var all []string
	for _, p := range file.Policies {
		all = append(all, p.Name)
	}
	return all
}

// listed joins names, the first few of many.
func listed(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// counted is "1 policy", "2 policies".
func counted[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
