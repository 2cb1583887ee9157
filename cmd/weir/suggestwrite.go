package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/suggest"
)

// policyAddition adds a policy and a test to a policy file.
type policyAddition struct {
	path, name string
	mode       fs.FileMode
	before     []byte // nil: the file does not exist
}

// newPolicyAddition reads the file of --write. It reports a wrong file before the logs are
// read.
func newPolicyAddition(path, name string) (*policyAddition, error) {
	if _, err := policy.Parse("", fmt.Appendf(nil, "version: 1\npolicies:\n  %s:\n    limit: 1 per day\n", name)); err != nil {
		return nil, usage("use a name such as search or login-per-ip", "--policy: %q is no name of a policy", name)
	}
	a := &policyAddition{path: path, name: name, mode: 0o644}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
			return nil, usage("choose another file for --write", "%s: the folder does not exist", path)
		}
		return a, nil
	}
	if err != nil {
		return nil, usage("choose another file for --write", "%w", err)
	}
	a.mode = info.Mode().Perm()
	source, err := loadPolicies(path, io.Discard)
	if err != nil {
		return nil, err
	}
	if p := source.file.Policy(name); p != nil {
		return nil, usage("choose another name with --policy NAME, or delete that policy first", "%s:%d: there is a policy %s already", path, p.Line, name)
	}
	a.before = source.text
	return a, nil
}

// write adds the suggestion to the file.
func (a *policyAddition) write(messages io.Writer, r *suggest.Result, logs []string) error {
	p, t := a.policyText(r, logs), a.testText(r)
	after := a.before
	if after == nil {
		after = []byte("version: 1\n")
	}
	after = insert(insert(after, "policies", p), "tests", t)
	if _, err := policy.Parse(a.path, after); err != nil {
		return usage("add these lines by hand:\npolicies:\n"+indented(p, "  ")+"tests:\n"+indented(t, "  "),
			"%s has a form that cannot be extended, and is not changed", a.path)
	}
	if err := replaceFile(a.path, after, a.mode); err != nil {
		return usage("choose another file for --write", "--write: %w", err)
	}
	_, err := fmt.Fprintf(messages, "weir suggest: added the policy %s to %s as a shadow, which counts and denies nothing\n", a.name, a.path)
	return err
}

// policyText returns the lines of the policy, without indentation.
func (a *policyAddition) policyText(r *suggest.Result, logs []string) []string {
	w := &r.Windows[r.Best]
	s := &w.Suggested
	names := make([]string, len(logs))
	for i, name := range logs {
		names[i] = filepath.Base(name)
	}
	sample := ""
	if r.Log.Sample > 1 {
		sample = fmt.Sprintf(", a sample of 1/%d of keys", r.Log.Sample)
	}
	about := fmt.Sprintf("Suggested from %s of %s, %s to %s%s: %s.", counted(r.Requests, "request", "requests"), listed(names),
		r.From.In(r.Zone).Format(time.DateOnly), r.To.In(r.Zone).Format(time.DateOnly), sample, s.Why)
	return []string{
		a.name + ":",
		"  about: " + strconv.Quote(string(answer.Printable([]byte(about)))),
		"  limit: " + s.Line,
		"  shadow: true",
	}
}

// testText returns the lines of the test, without indentation.
func (a *policyAddition) testText(r *suggest.Result) []string {
	w := &r.Windows[r.Best]
	limit, window := w.Suggested.Limit, policy.FormatDuration(w.Window)
	var key []string
	for _, d := range r.Dimensions {
		value := "example"
		if d == "ip" {
			value = "192.0.2.1"
		}
		key = append(key, d+": "+value)
	}
	return []string{
		a.name + " allows " + number(limit) + " and denies one more:",
		"  policy: " + a.name,
		"  key: {" + strings.Join(key, ", ") + "}",
		"  steps:",
		"    - {n: " + number(limit) + ", expect: allowed, remaining: 0}",
		"    - {expect: denied, retry: " + window + "}",
		"    - {at: " + window + ", expect: allowed, remaining: " + number(limit-1) + "}",
	}
}

// indented returns lines with an indentation.
func indented(lines []string, by string) (text string) {
	for _, line := range lines {
		text += by + line + "\n"
	}
	return text
}

// insert adds lines to the end of a top member of a policy file, or the member itself.
// Everything else stays, byte for byte.
func insert(text []byte, member string, lines []string) []byte {
	newline := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		newline = "\r\n"
	}
	all := bytes.SplitAfter(text, []byte("\n"))
	at, end, indent := -1, -1, "  "
	for i, line := range all {
		rest := bytes.TrimLeft(line, " ")
		blank := len(bytes.TrimSpace(rest)) == 0 || rest[0] == '#'
		switch {
		case blank:
		case len(rest) == len(line) && at >= 0:
			return spliced(all, end, indented(lines, indent), newline)
		case len(rest) == len(line) && bytes.HasPrefix(line, []byte(member+":")):
			at, end = i, i+1
		case at >= 0:
			if end == at+1 {
				indent = string(line[:len(line)-len(rest)])
			}
			end = i + 1
		}
	}
	if at >= 0 {
		return spliced(all, end, indented(lines, indent), newline)
	}
	return spliced(all, len(all), member+":\n"+indented(lines, indent), newline)
}

// spliced returns lines with an addition before line at, which begins on a new line.
func spliced(all [][]byte, at int, addition, newline string) []byte {
	before, after := bytes.Join(all[:at], nil), bytes.Join(all[at:], nil)
	if len(before) > 0 && before[len(before)-1] != '\n' {
		addition = "\n" + addition
	}
	return slices.Concat(before, []byte(strings.ReplaceAll(addition, "\n", newline)), after)
}

// replaceFile replaces a file at once: readers find the old or the new content.
func replaceFile(path string, text []byte, mode fs.FileMode) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, writeErr := f.Write(text)
	err = cmp.Or(writeErr, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
