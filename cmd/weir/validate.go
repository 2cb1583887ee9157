package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirredis"
)

func validateCommand() *cobra.Command {
	var asJSON, isEnvoy bool
	var o envoyconf.Options
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a policy file",
		Long: `Validate reads a policy file as weir serve would and reports the first thing wrong
with it: file, line, column, the line itself, and what would be right. The exit
code is 0 for a good file and 2 for any other. Of a good file it also tells which
overrides have expired, and what limits with fixed windows let through at worst:
twice their count in a window's length, across the edge of two.

Of a good file it says how a Redis Cluster would keep each policy: spread over its
slots by the dimensions that all limits of the policy count by, or, where there are
none, pinned to one slot and so to one server.

With --envoy, FILE is a configuration of Envoy's reference rate limit service, a file or
a directory of them, as weir serve --envoy-config reads it.`,
		Example: `  weir validate weir.yaml
  weir validate --json weir.yaml
  weir validate --envoy config/`,
		Args: wantArgs(1, 1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isEnvoy {
				return validateEnvoy(cmd, args[0], o, asJSON)
			}
			return validate(cmd, args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	cmd.Flags().BoolVar(&isEnvoy, "envoy", false, "FILE is a configuration of Envoy's reference rate limit service")
	cmd.Flags().BoolVar(&o.MergeDomains, "envoy-merge-domains", false, "with --envoy: let several files add to one domain")
	return cmd
}

// validated is what weir validate --json prints of a good file.
type validated struct {
	File     string            `json:"file"`
	OK       bool              `json:"ok"` // true
	Policies int               `json:"policies"`
	Limits   int               `json:"limits"`
	Names    []validatedPolicy `json:"names"`
	Tests    int               `json:"tests"`             // weir test runs them
	Expired  []expired         `json:"expired,omitempty"` // overrides that no longer apply
	Notes    []string          `json:"notes,omitempty"`   // what is hardly meant, a sentence each
	Fixed    []fixed           `json:"fixed,omitempty"`   // limits with fixed windows
}

// fixed is a limit with fixed windows, and its worst case.
type fixed struct {
	Policy   string `json:"policy"`
	Limit    string `json:"limit"`
	Sentence string `json:"sentence"`
	Max      int64  `json:"max"`
	Worst    int64  `json:"worst"`     // units in a window's length, across the edge of two
	WindowMS int64  `json:"window_ms"` // rounded up
	window   time.Duration
	varies   string // the end of the sentence about it
}

// expired is an override to remove.
type expired struct {
	Policy string `json:"policy"`
	Line   int    `json:"line"`
	For    string `json:"for"`
	Until  string `json:"until"`
	Why    string `json:"why"`
}

type validatedPolicy struct {
	Policy  string   `json:"policy"`
	Line    int      `json:"line"`
	Limits  []string `json:"limits"`
	Pinned  bool     `json:"pinned"`  // a Redis Cluster keeps all of it in one slot
	Cluster string   `json:"cluster"` // where it keeps it, in a sentence
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
			printJSON(out, invalid{path, false, e.Line, e.Column, e.Problem, e.Next})
		}
		return &failure{code: exitUsage, err: err}
	}
	v, err := describe(path, file)
	if err != nil {
		return usage("", "%s: %w", path, err)
	}
	if asJSON {
		return printJSON(out, v)
	}
	return v.print(printable{out})
}

// print writes the result for a person.
func (v *validated) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s\n", v.File, counted(v.Policies, "policy", "policies"), counted(v.Limits, "limit", "limits"))
	for _, p := range v.Names {
		note := ""
		if p.Pinned {
			note = "note: "
		}
		b.WriteString("  " + note + p.Cluster + "\n")
	}
	for _, l := range v.Fixed {
		fmt.Fprintf(&b, "  note: limit %s of %s (%s) has fixed windows: up to %d in %s, twice its count, across the edge of two%s\n",
			l.Limit, l.Policy, l.Sentence, l.Worst, policy.FormatDuration(l.window), l.varies)
	}
	for _, e := range v.Expired {
		fmt.Fprintf(&b, "  note: line %d: the override of %s for %s expired at %s, so it does nothing; remove it\n", e.Line, e.Policy, e.For, e.Until)
	}
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	if v.Tests > 0 {
		fmt.Fprintf(&b, "  %s: run them with weir test %s\n", counted(v.Tests, "test", "tests"), v.File)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// overdue are the overrides of the policy that no longer apply at an instant.
func overdue(p *policy.Policy, at time.Time) []expired {
	var all []expired
	for _, o := range p.Expired(at) {
		var whom []string
		for _, d := range o.For {
			whom = append(whom, d.Name+"="+answer.Shown(d.Value))
		}
		all = append(all, expired{p.Name, o.Line, strings.Join(whom, " "), o.Until.UTC().Format(time.RFC3339), o.Why})
	}
	return all
}

// odd is what is allowed in a policy and hardly meant.
func odd(p *policy.Policy) (notes []string) {
	for i, l := range p.Limits {
		if l.Cost > mostOf(p, i) {
			notes = append(notes, fmt.Sprintf("line %d: an attempt costs %d of limit %s of %s, which allows %d, so that none is ever allowed", p.Line, l.Cost, l.Name, p.Name, mostOf(p, i)))
		}
		if b := p.BlockOf(i); b > 0 && b < l.Window {
			notes = append(notes, fmt.Sprintf("line %d: limit %s of %s blocks for %s, and by itself refuses for up to %s, its window; let the block be longer than that",
				p.Line, l.Name, p.Name, policy.FormatDuration(b), policy.FormatDuration(l.Window)))
		}
	}
	return notes
}

// fixedOf labels limit i, which has fixed windows, with its worst case.
func fixedOf(p *policy.Policy, i int) fixed {
	l := &p.Limits[i]
	f := fixed{Policy: p.Name, Limit: l.Name, Sentence: p.Sentence(i), Max: l.Max, Worst: 2 * l.Max,
		WindowMS: answer.Millis(l.Window), window: l.Window}
	if mostOf(p, i) > l.Max {
		f.varies = ", and twice theirs under plans and overrides"
	}
	return f
}

// mostOf is the largest count of limit i, with its plans and overrides.
func mostOf(p *policy.Policy, i int) int64 {
	most := p.Limits[i].Max
	raise := func(changes []policy.Change) {
		for _, c := range changes {
			if c.Limit == i {
				most = max(most, c.Max)
			}
		}
	}
	for _, plan := range p.Tiers {
		raise(plan.Changes)
	}
	for _, o := range p.Overrides {
		raise(o.Changes)
	}
	return most
}

func describe(path string, file *policy.File) (*validated, error) {
	v := &validated{File: path, OK: true, Policies: len(file.Policies), Tests: len(file.Tests), Names: []validatedPolicy{}}
	for _, p := range file.Policies {
		plan, err := p.Policy.Plan()
		if err != nil {
			return nil, err
		}
		row := validatedPolicy{Policy: p.Name, Line: p.Line, Pinned: weirredis.Pinned(plan), Cluster: weirredis.DescribeSlots(plan)}
		for i, l := range p.Limits {
			row.Limits = append(row.Limits, l.Name)
			if l.Kind != weir.Rolling && l.Max < weir.MaxUnits {
				v.Fixed = append(v.Fixed, fixedOf(p, i))
			}
		}
		v.Limits += len(p.Limits)
		v.Names = append(v.Names, row)
		v.Expired = append(v.Expired, overdue(p, time.Now())...)
		v.Notes = append(v.Notes, odd(p)...)
	}
	return v, nil
}
