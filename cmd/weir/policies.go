package main

import (
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/systemd"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/policy"
)

// builtIn names the source of policies in messages, if --policies is not given.
const builtIn = "the built-in demonstration policies"

//go:embed demo.yaml
var demonstration []byte

// policiesFlag adds --policies.
func policiesFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "policies", "p", "", settingHelp()["policies"])
}

// loadPolicies reads a policy file, and returns its text as well. If path is "", it returns the
// built-in policies without a text, and prints a note.
func loadPolicies(path string, stderr io.Writer) (file *policy.File, text []byte, err error) {
	if path == "" {
		if file, err = policy.Parse(builtIn, demonstration); err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(stderr, "weir: no --policies FILE, so these are %s: %s\n", builtIn,
			strings.Join(policyNames(file), ", "))
		return file, nil, nil
	}
	if text, err = enforce.ReadFile(path); err == nil {
		file, err = policy.Parse(path, text)
	}
	return file, text, err
}

// findPolicy returns the policy with that name, or a failure that lists the names of the file.
func findPolicy(file *policy.File, name string) (*policy.Definition, error) {
	if p := file.Definition(name); p != nil {
		return p, nil
	}
	known := policyNames(file)
	if isPolicyFile(name) {
		return nil, usage("write --policies "+name+" and the name of a policy",
			"%q is no policy; a policy file is named by --policies", name)
	}
	return nil, usage(didYouMean(name, known, "its policies are "+listed(known)),
		"%s has no policy %q", file.Name, name)
}

// policyNames returns the names of the policies in the order of the file.
func policyNames(file *policy.File) []string {
	var all []string
	for _, p := range file.Policies {
		all = append(all, p.Name)
	}
	return all
}

// newReloader returns a watcher that reloads a file or a directory when its content changes.
// seen is the content in force, in the form that read returns. Invalid content changes nothing,
// and the server logs each reload.
func newReloader[T any](
	path string, seen []byte,
	read func(path string) ([]byte, error),
	parse func(path string, content []byte) (T, error),
	reload func(T, error) error,
) *filewatch.Watcher {
	return &filewatch.Watcher{
		Seen: seen,
		Read: func() ([]byte, error) { return filewatch.ReadEnding(path, read) },
		Changed: func(content []byte, err error) error {
			defer debug.FreeOSMemory() // frees the memory of large content that is invalid
			var next T
			if err == nil {
				next, err = parse(path, content)
			}
			return reload(next, err)
		}}
}

// reloadOnHangup reloads all files at each SIGHUP. At its end weir does not wait for a running
// reload, because a read from a disk may hang.
func reloadOnHangup(hangups <-chan os.Signal, all []*filewatch.Watcher, log *slog.Logger) {
	for range hangups {
		systemd.Notify(systemd.Reloading, log)
		for _, r := range all {
			r.Again()
		}
		systemd.Notify(systemd.Ready, log)
	}
}
