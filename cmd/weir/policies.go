package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/policy"
)

// builtIn is the source of policies without --policies.
const builtIn = "the built-in demonstration policies"

//go:embed demo.yaml
var demonstration []byte

// policiesFlag adds --policies.
func policiesFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "policies", "p", "", settingHelp()["policies"])
}

// loadPolicies reads a policy file. If path is "", it returns the built-in policies, without a
// text, and writes a note.
func loadPolicies(path string, stderr io.Writer) (file *policy.File, text []byte, err error) {
	if path == "" {
		if file, err = policy.Parse(builtIn, demonstration); err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(stderr, "weir: no --policies FILE, so these are %s: %s\n", builtIn,
			strings.Join(names(file), ", "))
		return file, nil, nil
	}
	if text, err = enforce.ReadFile(path); err == nil {
		file, err = policy.Parse(path, text)
	}
	return file, text, err
}

// findPolicy returns the policy of that name.
func findPolicy(file *policy.File, name string) (*policy.Definition, error) {
	if p := file.Definition(name); p != nil {
		return p, nil
	}
	known := names(file)
	if isPolicyFile(name) {
		return nil, usage("write --policies "+name+" and the name of a policy",
			"%q is no policy; a policy file is named by --policies", name)
	}
	return nil, usage(didYouMean(name, known, "its policies are "+listed(known)),
		"%s has no policy %q", file.Name, name)
}

func names(file *policy.File) []string {
	var all []string
	for _, p := range file.Policies {
		all = append(all, p.Name)
	}
	return all
}

// reloader returns the reloader of a file, or of a directory if read takes one. seen is the content
// in force, as read returns it. Invalid content changes nothing; the server logs each reload.
func reloader[T any](
	path string, seen []byte,
	read func(path string) ([]byte, error),
	parse func(path string, content []byte) (T, error),
	reload func(T, error) error,
) *filewatch.Watcher {
	return &filewatch.Watcher{
		Seen: seen,
		Read: func() ([]byte, error) { return filewatch.ReadEnding(path, read) },
		Changed: func(content []byte, err error) error {
			defer debug.FreeOSMemory() // returns the memory of large content that is invalid
			var next T
			if err == nil {
				next, err = parse(path, content)
			}
			return reload(next, err)
		}}
}

// reloadAt reloads at each SIGHUP. A reload that is running may go on at the end of weir: a disk that
// hangs must not keep it from ending.
func reloadAt(hangups <-chan os.Signal, all []*filewatch.Watcher) {
	for range hangups {
		for _, r := range all {
			r.Again()
		}
	}
}
