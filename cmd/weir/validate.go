package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirredis"
)

// validateOptions are the flags of weir validate.
type validateOptions struct {
	asJSON, cluster, envoy, merge bool
}

func validateCommand() *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check policy files",
		Long: `Validate reads policy files like weir serve. For a good file it prints ok, each limit
in words and its worst case: the most units that the limit allows in the length of its
window. Notes name expired overrides and limits that are probably mistakes.

For a bad file it prints file, line, column, the line itself, and the next step. The
exit code is 0 if all files are good, else 2.

With --cluster it also prints where a Redis Cluster keeps each policy: spread over its
slots by the dimensions that all limits of the policy share, or pinned to one slot, and
so to one server, if they share none.

With --envoy each FILE is a configuration of Envoy's reference rate limit service, a
file or a directory of files, as for weir serve --envoy-config.`,
		Example: `  weir validate weir.yaml
  weir validate web.yaml mobile.yaml
  weir validate --json weir.yaml
  weir validate --envoy config/`,
		Args: wantArgs(1, math.MaxInt, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return validate(cmd, &o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.asJSON, "json", false, "print the result as one JSON object for each file")
	f.BoolVar(&o.cluster, "cluster", false, "print where a Redis Cluster keeps each policy")
	f.BoolVar(&o.envoy, "envoy", false, "FILE is a configuration of Envoy's reference rate limit service")
	f.BoolVar(&o.merge, "envoy-merge-domains", false, "with --envoy: let several files add rules to one domain")
	return cmd
}

// validate checks all files. Its error joins those of the bad files.
func validate(cmd *cobra.Command, o *validateOptions, paths []string) error {
	out := printable{cmd.OutOrStdout()}
	var bad []error
	for _, path := range paths {
		result, err := validateFile(path, o)
		switch {
		case err != nil && o.asJSON:
			bad = append(bad, err)
			if invalid := newInvalidFile(path, err); invalid != nil {
				err = printJSON(out, invalid)
			} else {
				err = nil
			}
		case err != nil:
			bad = append(bad, err)
			err = nil
		case o.asJSON:
			err = printJSON(out, result)
		default:
			_, err = io.WriteString(out, result.text(o))
		}
		if err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		return &failure{code: exitUsage, err: errors.Join(bad...)}
	}
	return nil
}

// validResult is the result for a good file: an object for --json, or text.
type validResult interface {
	text(o *validateOptions) string
}

func validateFile(path string, o *validateOptions) (validResult, error) {
	if o.envoy {
		return validateEnvoy(path, envoyconf.Options{MergeDomains: o.merge})
	}
	file, err := policy.Load(path)
	if err != nil {
		return nil, err
	}
	v, err := describe(path, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, unprefixed{err})
	}
	return v, nil
}

// validFile is the output of weir validate --json for a good policy file.
type validFile struct {
	File     string            `json:"file"`
	OK       bool              `json:"ok"` // true
	Policies int               `json:"policies"`
	Limits   int               `json:"limits"`
	Names    []validPolicy     `json:"names"`
	Tests    int               `json:"tests"`             // that weir test runs
	Expired  []expiredOverride `json:"expired,omitempty"` // overrides that no longer apply
	Notes    []string          `json:"notes,omitempty"`   // sentences about probable mistakes
	Fixed    []fixedLimit      `json:"fixed,omitempty"`   // limits with fixed windows

	rows [][]string // for people: policy, limit, sentence, worst case
}

type validPolicy struct {
	Policy  string   `json:"policy"`
	Line    int      `json:"line"`
	Limits  []string `json:"limits"`
	Pinned  bool     `json:"pinned"`  // to one slot of a Redis Cluster
	Cluster string   `json:"cluster"` // a sentence about its slots
}

// fixedLimit is a limit with fixed windows and its worst case.
type fixedLimit struct {
	Policy   string `json:"policy"`
	Limit    string `json:"limit"`
	Sentence string `json:"sentence"`
	Max      int64  `json:"max"`
	Worst    int64  `json:"worst"`     // units in the length of a window, across the edge of two
	WindowMS int64  `json:"window_ms"` // rounded up
}

// expiredOverride is an override that no longer applies.
type expiredOverride struct {
	Policy string `json:"policy"`
	Line   int    `json:"line"`
	For    string `json:"for"`
	Until  string `json:"until"`
	Why    string `json:"why"`
}

// invalidFile is the output of weir validate --json for a bad file.
type invalidFile struct {
	File string `json:"file"`
	OK   bool   `json:"ok"` // false
	place
	More []place `json:"more,omitempty"` // the other errors of the file
}

// place is one error of a file.
type place struct {
	Line    int    `json:"line"`   // from 1; 0 for the file as a whole
	Column  int    `json:"column"` // from 1, in characters
	Problem string `json:"problem"`
	Next    string `json:"next"`
}

// newInvalidFile returns the errors of a file, or nil if err has no places.
func newInvalidFile(path string, err error) *invalidFile {
	var envoy *envoyconf.Error
	if errors.As(err, &envoy) {
		return &invalidFile{File: envoy.File, place: place{envoy.Line, envoy.Column, envoy.Problem, envoy.Next}}
	}
	all := places(err)
	if len(all) == 0 {
		return nil
	}
	return &invalidFile{File: path, place: all[0], More: all[1:]}
}

// places returns the places of the policy errors in a tree of errors.
func places(err error) (all []place) {
	switch e := err.(type) {
	case *policy.Error:
		return []place{{e.Line, e.Column, e.Problem, e.Next}}
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			all = append(all, places(each)...)
		}
	case interface{ Unwrap() error }:
		return places(e.Unwrap())
	}
	return all
}

// describe returns the result for a good policy file.
func describe(path string, file *policy.File) (*validFile, error) {
	v := &validFile{File: path, OK: true, Policies: len(file.Policies), Tests: len(file.Tests), Names: []validPolicy{}}
	for _, p := range file.Policies {
		plan, err := p.Policy.Plan()
		if err != nil {
			return nil, err
		}
		row := validPolicy{Policy: p.Name, Line: p.Line, Pinned: weirredis.Pinned(plan), Cluster: weirredis.DescribeSlots(plan)}
		for i, l := range p.Limits {
			row.Limits = append(row.Limits, l.Name)
			name := p.Name
			if i > 0 {
				name = ""
			}
			v.rows = append(v.rows, []string{name, l.Name, p.Sentence(i), worstCase(p, i)})
			if l.Kind != weir.Rolling && l.Max < weir.MaxUnits {
				v.Fixed = append(v.Fixed, fixedLimit{p.Name, l.Name, p.Sentence(i), l.Max, 2 * l.Max, answer.Millis(l.Window)})
			}
		}
		v.Limits += len(p.Limits)
		v.Names = append(v.Names, row)
		v.Expired = append(v.Expired, expiredOverrides(p, time.Now())...)
		v.Notes = append(v.Notes, mistakes(p)...)
	}
	return v, nil
}

// text returns the result for people.
func (v *validFile) text(o *validateOptions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ok, %s, %s\n", v.File, counted(v.Policies, "policy", "policies"), counted(v.Limits, "limit", "limits"))
	if len(v.rows) > 0 {
		var table strings.Builder
		writeTable(&table, len(v.rows[0]), v.rows)
		b.WriteString("  " + strings.TrimSuffix(strings.ReplaceAll(table.String(), "\n", "\n  "), "  "))
	}
	note := func(format string, args ...any) { fmt.Fprintf(&b, "  note: "+format+"\n", args...) }
	for _, p := range v.Names {
		switch {
		case o.cluster && p.Pinned:
			note("%s", p.Cluster)
		case o.cluster:
			b.WriteString("  " + p.Cluster + "\n")
		}
	}
	for _, e := range v.Expired {
		note("line %d: the override of %s for %s expired at %s and has no effect; remove it", e.Line, e.Policy, e.For, e.Until)
	}
	for _, n := range v.Notes {
		note("%s", n)
	}
	if v.Tests > 0 {
		fmt.Fprintf(&b, "  %s: run them with weir test %s\n", counted(v.Tests, "test", "tests"), v.File)
	}
	return b.String()
}

// worstCase returns the most units that limit i allows in the length of its window.
// Limits with fixed windows allow twice their count, across the edge of two.
func worstCase(p *policy.Policy, i int) string {
	l := &p.Limits[i]
	if l.Max == weir.MaxUnits {
		return "no bound"
	}
	factor, edge := int64(1), ""
	if l.Kind != weir.Rolling {
		factor, edge = 2, ", across the edge of two windows"
	}
	text := fmt.Sprintf("at most %d in any %s%s", factor*l.Max, policy.FormatDuration(l.Window), edge)
	switch most := maxOf(p, i); {
	case most == weir.MaxUnits:
		text += "; no bound with plans and overrides"
	case most > l.Max:
		text += fmt.Sprintf("; %d with plans and overrides", factor*most)
	}
	return text
}

// maxOf returns the largest Max of limit i, with the policy's plans and overrides.
func maxOf(p *policy.Policy, i int) int64 {
	most := p.Limits[i].Max
	raise := func(changes []policy.Change) {
		for _, c := range changes {
			if c.Limit == i {
				most = max(most, c.Max)
			}
		}
	}
	for _, tier := range p.Tiers {
		raise(tier.Changes)
	}
	for _, o := range p.Overrides {
		raise(o.Changes)
	}
	return most
}

// expiredOverrides returns the overrides of a policy that no longer apply.
func expiredOverrides(p *policy.Policy, at time.Time) []expiredOverride {
	var all []expiredOverride
	for _, o := range p.Expired(at) {
		var key []string
		for _, d := range o.For {
			key = append(key, d.Name+"="+answer.Shown(d.Value))
		}
		all = append(all, expiredOverride{p.Name, o.Line, strings.Join(key, " "), o.Until.UTC().Format(time.RFC3339), o.Why})
	}
	return all
}

// mistakes returns notes about valid limits that are probably mistakes.
func mistakes(p *policy.Policy) (notes []string) {
	for i, l := range p.Limits {
		if most := maxOf(p, i); l.Cost > most {
			notes = append(notes, fmt.Sprintf("line %d: an attempt costs %d of limit %s of %s, which allows %d, so no attempt is ever allowed", p.Line, l.Cost, l.Name, p.Name, most))
		}
		if b := p.BlockOf(i); b > 0 && b < l.Window {
			notes = append(notes, fmt.Sprintf("line %d: limit %s of %s blocks for %s, and without a block it denies for up to %s, its window; make the block longer",
				p.Line, l.Name, p.Name, policy.FormatDuration(b), policy.FormatDuration(l.Window)))
		}
	}
	return notes
}

// validEnvoy is the output of weir validate --envoy --json for a good configuration.
type validEnvoy struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"` // true
	Files    int      `json:"files"`
	Domains  []string `json:"domains"`
	Rules    int      `json:"rules"`
	Warnings []string `json:"warnings"` // settings without effect
}

// validateEnvoy checks a configuration of Envoy's reference rate limit service: a
// file or a directory of files.
func validateEnvoy(path string, o envoyconf.Options) (validResult, error) {
	c, err := envoyconf.Load(path, o)
	if err != nil {
		return nil, err
	}
	v := &validEnvoy{path, true, c.Files, []string{}, c.Rules(), append([]string{}, c.Warnings...)}
	for _, d := range c.Domains {
		v.Domains = append(v.Domains, d.Name)
	}
	return v, nil
}

// text returns the result for people.
func (v *validEnvoy) text(*validateOptions) string {
	text := fmt.Sprintf("%s: ok, %s, %s, %s\n", v.File,
		counted(v.Files, "file", "files"), counted(len(v.Domains), "domain", "domains"), counted(v.Rules, "rule", "rules"))
	for _, warning := range v.Warnings {
		text += "  note: " + warning + "\n"
	}
	return text
}
