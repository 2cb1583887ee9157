package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/suggest"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// policyDraft is a policy file that does not exist yet.
type policyDraft struct{ path, name string }

// newPolicyDraft returns the file of --write. It reports a wrong one before the logs are read.
func newPolicyDraft(path, name string) (*policyDraft, error) {
	if _, err := policy.Parse("", fmt.Appendf(nil, "version: 1\npolicies:\n  %s:\n    limit: 1 per day\n", name)); err != nil {
		return nil, usage("use a name such as search or login-per-ip", "--policy: %q is no name of a policy", name)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, usage("choose a new file, and copy the policy and its test from there", "--write: %s exists", path)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
		return nil, usage("choose another file for --write", "%s: the folder does not exist", path)
	}
	return &policyDraft{path, name}, nil
}

// write writes the suggestion.
func (d *policyDraft) write(messages io.Writer, r *suggest.Result, logs []string) error {
	f, err := os.OpenFile(d.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = fmt.Fprintf(f, "version: 1\npolicies:\n  %s\ntests:\n  %s\n",
			strings.Join(d.policyText(r, logs), "\n  "), strings.Join(d.testText(r), "\n  "))
		err = cmp.Or(err, f.Close())
	}
	if err != nil {
		return usage("choose another file for --write", "--write: %w", err)
	}
	_, err = fmt.Fprintf(messages, "weir suggest: wrote the policy %s to %s as a shadow, which counts and denies nothing\n", d.name, d.path)
	return err
}

// policyText returns the lines of the policy, without indentation.
func (d *policyDraft) policyText(r *suggest.Result, logs []string) []string {
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
		d.name + ":",
		"  about: " + strconv.Quote(string(answer.Printable([]byte(about)))),
		"  limit: " + s.Line,
		"  shadow: true",
	}
}

// testText returns the lines of the test, without indentation.
func (d *policyDraft) testText(r *suggest.Result) []string {
	w := &r.Windows[r.Best]
	limit, window := w.Suggested.Limit, w.Length
	var key []string
	for _, d := range r.Dimensions {
		value := "example"
		if d == "ip" {
			value = "192.0.2.1"
		}
		key = append(key, d+": "+value)
	}
	return []string{
		d.name + " allows " + number(limit) + " and denies one more:",
		"  policy: " + d.name,
		"  key: {" + strings.Join(key, ", ") + "}",
		"  steps:",
		"    - {n: " + number(limit) + ", expect: allowed, remaining: 0}",
		"    - {expect: denied, retry: " + window + "}",
		"    - {at: " + window + ", expect: allowed, remaining: " + number(limit-1) + "}",
	}
}
