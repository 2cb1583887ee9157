// Package policy reads policy files. In such a file a limit is one line in plain words:
//
//	version: 1
//	policies:
//	  push-notifications:
//	    about: Teachers get at most ten pushes a minute, never two in the same breath.
//	    limit: 10 per minute per teacher, 3s apart
//	  slack-alerts:
//	    limits:
//	      channel:  100 per 30m
//	      category: 10 per 30m per category
//
// A limit is
//
//	COUNT [unit] per WINDOW {per KEY} [, DURATION apart] [, fixed [from the first hit]]
//	    [, burst N] [, in ZONE] [, from DAY] [, then block DURATION]
//	COUNT [unit] at once {per KEY}, for at most DURATION
//
// A window is second, minute, hour, day, week or a length such as 250ms, 90s, 30m, 24h,
// 7d. Digits may be grouped as in 200_000. The unit is for people. The limit counts by
// the keys; without keys all callers share it.
//
// Windows roll unless the limit is fixed. Fixed windows begin with the calendar, in UTC
// or by the clock of a time zone, or with the first unit after the last window ended.
// Across their edges up to twice the count passes. With a burst the limit is a token
// bucket of that many units, which refills by the count per window. A concurrency limit counts
// the units that are in use.
//
// unlimited in place of the count allows weir.MaxUnits and so never denies. Its window is
// optional: "unlimited per user" keeps the key in the policy and stores almost nothing;
// "unlimited per day per user" still counts, for dashboards.
//
// "then block 1h" denies a key for an hour after the limit has denied an attempt of it,
// even when there is room again.
//
// With keys: {ip: address} the written forms of an address, and the addresses of a /64, count
// as one client. A policy may also have plans, overrides, a shadow and a count of reports, and a
// file may have tests: see docs/policies.md. Package enforce applies all of them.
//
// [Parse] and [Load] read a file, and [ParseLimit] reads a line alone, for limits in Go.
// [Definition.Sentence] writes a limit as a line. weir.schema.json is for editors.
//
// # Trade-off
//
// Reading is strict and atomic. An unknown word, a duplicate, an anchor, a second document
// or a contradictory limit is an error, so that no typing mistake becomes a limit. One
// run reports up to 50 errors, each with line, caret and next step. In return,
// some valid YAML is rejected: see docs/policies.md.
//
// There are no expressions, variables or includes, because people on call read policy
// files. Programs that generate policies use the long form of a limit:
//
//	limit: {max: 10, window: 1m, per: [teacher], apart: 3s}
//	limit: {max: 10, window: second, per: ip, burst: 20}
//	limit: {max: 10_000, window: month, per: account, kind: fixed, from: 14th, zone: America/New_York}
//	limit: {max: 20, per: user, max_hold: 30s}
//
// Any file of up to 256 KiB is read or rejected in a fraction of a second with less
// than 150 MiB of memory, also a hostile one.
package policy

import (
	"errors"

	"github.com/weirlimit/weir/internal/policyfile"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// File is a checked policy file.
type File struct {
	Name     string        // as passed to Parse or Load
	Policies []*Definition // in the order of the file; do not add or rename any
	Tests    []*Test       // in the order of the file
}

// Definition returns the policy of that name, or nil.
func (f *File) Definition(name string) *Definition {
	for _, p := range f.Policies {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Parse reads a policy file. The name is for error messages only. The error joins 1 to 50 errors of
// the file in their order, each an *[Error] ([errors.Join]); [errors.As] finds the first. Malformed
// YAML ends at its first error. With an error, Parse returns no File.
func Parse(filename string, src []byte) (*File, error) {
	if len(src) > policyfile.MaxBytes {
		return nil, errors.Join(&Error{
			File:    filename,
			Problem: "the file is larger than 256 KiB",
			Next:    "split it, and run one weir for each part",
		})
	}
	doc, err := yamlnode.Read(src)
	c := checker{file: filename, doc: doc}
	if err != nil {
		c.record(faultf(err.Offset, err.Next, "%s", err.Problem))
		return nil, c.errors(false)
	}
	var f *File
	more := catch(func() { c.try(func() { f = c.policyFile(&doc.Root) }) }) == enough
	if len(c.faults) > 0 {
		return nil, c.errors(more)
	}
	return f, nil
}

// Load reads the policy file at path, of at most 256 KiB. The error is that of [Parse], or an
// *[Error] that wraps the reason why the file cannot be read, such as fs.ErrNotExist.
func Load(path string) (*File, error) {
	src, failed := policyfile.Read(path)
	if failed != nil {
		return nil, &Error{
			File:    failed.File,
			Problem: failed.Problem,
			Next:    failed.Next,
			Err:     failed.Err,
		}
	}
	return Parse(path, src)
}
