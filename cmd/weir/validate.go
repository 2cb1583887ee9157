package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/definition"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/redisslot"
	"github.com/weirlimit/weir/policy"
)

// validateOptions are the flags of weir validate.
type validateOptions struct {
	against        string // an older file to compare with
	cluster, envoy bool
	envoyOptions   envoyconf.Options
}

func validateCommand() *cobra.Command {
	var o validateOptions
	cmd := newCommand("validate FILE...", "Check policy files", wantArgs(1, math.MaxInt, "FILE"),
		func(cmd *cobra.Command, args []string) error {
			if o.envoy && o.cluster {
				return usage("leave out one of the two", "--envoy has no --cluster")
			}
			if o.envoyOptions.MergeDomains && !o.envoy {
				return usage("add --envoy",
					"--%s is for configurations of Envoy's service", mergeDomains)
			}
			return checkFiles(cmd, args, o.check)
		})
	f := cmd.Flags()
	f.StringVar(&o.against, "against", "",
		"print the changes that a reload of FILE in place of `OLD` makes")
	f.BoolVar(&o.cluster, "cluster", false, "print where a Redis Cluster keeps each policy")
	f.BoolVar(&o.envoy, "envoy", false,
		"FILE is a configuration of Envoy's reference rate limit service")
	f.BoolVar(&o.envoyOptions.MergeDomains, mergeDomains, false,
		"with --envoy, merge files with one domain")
	return withJSON(cmd, jsonOfFiles)
}

// jsonOfFiles is the help of --json of the verbs that check files.
const jsonOfFiles = "print the result as one JSON object for each file"

// checkFiles checks files and prints the results. The error joins those of the bad files.
func checkFiles(
	cmd *cobra.Command, paths []string, check func(path string) (validResult, error),
) error {
	out := cmd.OutOrStdout()
	var bad []error
	for _, path := range paths {
		result, invalid := check(path)
		var err error
		switch {
		case invalid == nil:
			err = printResult(cmd, out, result, result.write)
		case wantsJSON(cmd):
			err = printInvalid(out, path, invalid)
		}
		if err != nil {
			return err
		}
		bad = append(bad, invalid)
	}
	return errors.Join(bad...)
}

// validResult is the result for a good file. It is encoded for --json, and write writes it as
// text.
type validResult interface{ write(b *strings.Builder) }

// check checks a policy file, or a configuration of Envoy's rate limit service.
func (o *validateOptions) check(path string) (validResult, error) {
	if o.envoy {
		return o.checkEnvoy(path)
	}
	file, err := policy.Load(path)
	if err != nil {
		return nil, err
	}
	v := describe(path, file, time.Now())
	v.cluster = o.cluster
	if o.against != "" {
		old, err := policy.Load(o.against)
		if err != nil {
			return nil, err
		}
		v.against = o.against
		v.Changes = new(append([]string{}, policy.Changes(old, file)...))
	}
	return v, nil
}

// validFile is the output of weir validate --json for a good policy file.
type validFile struct {
	File        string            `json:"file"`
	OK          bool              `json:"ok"` // true
	Policies    int               `json:"policies"`
	Limits      int               `json:"limits"`
	Names       []validPolicy     `json:"names"`
	Tests       int               `json:"tests"`             // number of tests that weir test runs
	Expired     []expiredOverride `json:"expired,omitempty"` // overrides that no longer apply
	Notes       []string          `json:"notes,omitempty"`   // sentences about probable mistakes
	Fixed       []kindLimit       `json:"fixed,omitempty"`   // limits with fixed windows
	Buckets     []kindLimit       `json:"buckets,omitempty"` // token buckets
	Concurrency []kindLimit       `json:"concurrency,omitempty"`
	Changes     *[]string         `json:"changes,omitempty"` // phrases; only with --against

	rows    [][]string // for text: an indent, policy, limit, sentence, worst case
	cluster bool       // print the slots of a Redis Cluster
	against string     // the older file of Changes
}

type validPolicy struct {
	Policy  string   `json:"policy"`
	Line    int      `json:"line"`
	Limits  []string `json:"limits"`
	Pinned  bool     `json:"pinned"`  // a Redis Cluster keeps all histories in one slot
	Cluster string   `json:"cluster"` // a sentence about its slots
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

// printInvalid prints the errors of a file as JSON. It prints nothing if err has no places in a
// file.
func printInvalid(out io.Writer, path string, err error) error {
	all := errorPlaces(err)
	if first, ok := errors.AsType[*policy.Error](err); ok {
		path = first.File
	}
	if len(all) == 0 {
		return nil
	}
	return printJSON(out, invalidFile{File: path, place: all[0], More: all[1:]})
}

// errorPlaces returns the places of the policy errors in err and in the errors that it wraps.
func errorPlaces(err error) (all []place) {
	switch e := err.(type) {
	case *policy.Error:
		return []place{{Line: e.Line, Column: e.Column, Problem: e.Problem, Next: e.Next}}
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			all = append(all, errorPlaces(each)...)
		}
	case interface{ Unwrap() error }:
		return errorPlaces(e.Unwrap())
	}
	return all
}

// describe returns the result for a good policy file. now decides which overrides have expired.
func describe(path string, file *policy.File, now time.Time) *validFile {
	v := &validFile{
		File:     path,
		OK:       true,
		Policies: len(file.Policies),
		Tests:    len(file.Tests),
		Names:    []validPolicy{},
	}
	for _, p := range file.Policies {
		compiled, _ := p.Compile() // the check of the file has compiled it
		for _, o := range definition.Expired(p, now) {
			v.Expired = append(v.Expired, expiredOverride{
				Policy: p.Name,
				Line:   o.Line,
				For:    pairsText(o.For, answer.Shown),
				Until:  o.Until.UTC().Format(time.RFC3339),
				Why:    o.Why,
			})
		}
		p = withoutExpired(p, now)
		row := validPolicy{
			Policy:  p.Name,
			Line:    p.Line,
			Pinned:  redisslot.Pinned(compiled),
			Cluster: redisslot.Describe(compiled),
		}
		for i, l := range p.Limits {
			c := &compiled.Limits[i]
			row.Limits = append(row.Limits, l.Name)
			name := p.Name
			if i > 0 {
				name = ""
			}
			worst := worstCase(p, i, c)
			if share := definition.WarnAt(p, i); share > 0 {
				worst += fmt.Sprintf("; warns at %d%%", share)
			}
			v.rows = append(v.rows, []string{"", name, l.Name, p.Sentence(i), worst})
			v.addKind(p, i, c, nextWindows(c, now))
		}
		v.Limits += len(p.Limits)
		v.Names = append(v.Names, row)
		v.Notes = append(v.Notes, mistakes(p, compiled)...)
		v.Notes = append(v.Notes, variationMistakes(p)...)
	}
	return v
}

// write writes the result as text.
func (v *validFile) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s: ok, %s, %s\n", v.File, counted(v.Policies, "policy", "policies"),
		counted(v.Limits, "limit", "limits"))
	writeTable(b, "lllll", v.rows)
	for i := range v.Fixed {
		b.WriteString(v.Fixed[i].nextWindowsText())
	}
	note := func(format string, args ...any) { fmt.Fprintf(b, "  note: "+format+"\n", args...) }
	for _, p := range v.Names {
		switch {
		case v.cluster && p.Pinned:
			note("%s", p.Cluster)
		case v.cluster:
			b.WriteString("  " + p.Cluster + "\n")
		}
	}
	for _, e := range v.Expired {
		note("line %d: the override of %s for %s expired at %s and has no effect; remove it",
			e.Line, e.Policy, e.For, e.Until)
	}
	for _, n := range v.Notes {
		note("%s", n)
	}
	writeReload(b, v.against, v.Changes)
	if v.Tests > 0 {
		tests := counted(v.Tests, "test", "tests")
		fmt.Fprintf(b, "  %s: run them with weir test %s\n", tests, v.File)
	}
}

// writeReload writes the changes that a reload in place of an older file makes. Changes that
// are nil were not compared.
func writeReload(b *strings.Builder, older string, changes *[]string) {
	switch {
	case changes == nil:
		return
	case len(*changes) == 0:
		b.WriteString("  no changes from " + older + "\n")
		return
	}
	b.WriteString("  changes from " + older + ":\n")
	for _, c := range *changes {
		b.WriteString("    " + c + "\n")
	}
}

// validEnvoy is the output of weir validate --envoy --json for a good configuration.
type validEnvoy struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"` // true
	Files    int      `json:"files"`
	Domains  []string `json:"domains"`
	Rules    int      `json:"rules"`
	Warnings []string `json:"warnings"` // words without effect, and files that are not read

	Changes *[]string `json:"changes,omitempty"` // phrases; only with --against

	against string // the older configuration of Changes
}

// checkEnvoy checks a configuration of Envoy's reference rate limit service: a file or a
// directory of files.
func (o *validateOptions) checkEnvoy(path string) (validResult, error) {
	c, err := envoyconf.Load(path, o.envoyOptions)
	if err != nil {
		return nil, err
	}
	v := &validEnvoy{
		File:     path,
		OK:       true,
		Files:    c.Files,
		Domains:  []string{},
		Rules:    c.Rules(),
		Warnings: append([]string{}, c.Warnings...),
		against:  o.against,
	}
	if o.against != "" {
		old, err := envoyconf.Load(o.against, o.envoyOptions)
		if err != nil {
			return nil, err
		}
		v.Changes = new(append([]string{}, envoyconf.Changes(old, c)...))
	}
	for _, d := range c.Domains {
		v.Domains = append(v.Domains, d.Name)
	}
	return v, nil
}

// write writes the result as text.
func (v *validEnvoy) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s: ok, %s, %s, %s\n", v.File,
		counted(v.Files, "file", "files"), counted(len(v.Domains), "domain", "domains"),
		counted(v.Rules, "rule", "rules"))
	for _, warning := range v.Warnings {
		b.WriteString("  note: " + warning + "\n")
	}
	writeReload(b, v.against, v.Changes)
}

// kindLimit is a limit of a kind other than rolling, with its worst case. Members that do not
// apply to its kind are missing.
type kindLimit struct {
	Policy   string `json:"policy"`
	Limit    string `json:"limit"`
	Sentence string `json:"sentence"`
	Max      int64  `json:"max"`
	Burst    int64  `json:"burst,omitempty"`

	// Worst is the largest number of units in any span as long as the window, also across the
	// edge of two fixed windows. It is a pointer so that 0 is printed as well.
	Worst    *int64        `json:"worst,omitempty"`
	WindowMS int64         `json:"window_ms,omitempty"`   // rounded up
	MaxHold  int64         `json:"max_hold_ms,omitempty"` // longest time of a hold, rounded up
	Next     []windowStart `json:"next,omitempty"`        // the next two calendar windows
}

// windowStart is the first instant of a window.
type windowStart struct {
	Local string `json:"local"` // in the limit's time zone, RFC 3339
	UTC   string `json:"utc"`
}

// addKind adds limit i to the list of its kind. Rolling limits and limits without a bound are
// in no list. c is the compiled limit.
func (v *validFile) addKind(p *policy.Definition, i int, c *engine.Limit, next []windowStart) {
	l := &p.Limits[i]
	kind := kindLimit{Policy: p.Name, Limit: l.Name, Sentence: p.Sentence(i), Max: l.Max}
	if l.MaxHold == 0 {
		kind.Burst = l.Burst
		kind.Worst = new(answer.Worst(c))
		kind.WindowMS = answer.Millis(l.Window)
		kind.Next = next
	}
	switch {
	case answer.Uncounted(c) == "": // rolling
	case l.Burst > 0:
		v.Buckets = append(v.Buckets, kind)
	case l.Max == weir.MaxUnits:
	case l.MaxHold > 0:
		kind.MaxHold = answer.Millis(l.MaxHold)
		v.Concurrency = append(v.Concurrency, kind)
	default:
		v.Fixed = append(v.Fixed, kind)
	}
}

// nextWindows returns the starts of the two windows after the current one, or nil for a limit
// without calendar windows.
func nextWindows(l *engine.Limit, now time.Time) []windowStart {
	if l.Period == nil {
		return nil
	}
	var starts []windowStart
	for at := now.UnixMicro(); len(starts) < 2; {
		_, at = l.Period.WindowAt(at)
		start := time.UnixMicro(at)
		starts = append(starts, windowStart{
			Local: start.In(l.Period.Zone).Format(time.RFC3339),
			UTC:   start.UTC().Format(time.RFC3339),
		})
	}
	return starts
}

// nextWindowsText returns a line with the starts of the next windows, or "" for a limit without
// calendar windows.
func (l *kindLimit) nextWindowsText() string {
	var next []string
	for _, start := range l.Next {
		text := start.Local
		if start.UTC != start.Local {
			text += " (" + start.UTC + ")"
		}
		next = append(next, text)
	}
	if len(next) == 0 {
		return ""
	}
	return fmt.Sprintf("  %s, limit %s: the next windows begin at %s\n", l.Policy, l.Limit,
		strings.Join(next, " and "))
}

// worstCase returns the bound of limit i in words: the most units in a span as long as its
// window, or at the same time. c is the compiled limit.
func worstCase(p *policy.Definition, i int, c *engine.Limit) string {
	if c.Max == weir.MaxUnits {
		return "no bound"
	}
	text := answer.WorstCase(c, duration.Format(time.Duration(c.Window)*time.Microsecond))
	if maxOf(p, i, c, func(l *engine.Limit) int64 { return l.Max }) == weir.MaxUnits {
		return text + "; no bound with plans and overrides"
	}
	if worst := maxOf(p, i, c, answer.Worst); worst > answer.Worst(c) {
		text += fmt.Sprintf("; %d with plans and overrides", worst)
	}
	return text
}

// maxOf returns the largest result of value for limit i with the numbers of the policy, its
// plans and its overrides. c is the compiled limit.
func maxOf(p *policy.Definition, i int, c *engine.Limit, value func(*engine.Limit) int64) int64 {
	most, changed := value(c), *c
	raise := func(changes []policy.Change) {
		for _, change := range changes {
			if change.Limit == i {
				changed.Max = change.Max
				changed.Capacity = cmp.Or(change.Burst, change.Max)
				most = max(most, value(&changed))
			}
		}
	}
	for _, plan := range p.Plans {
		raise(plan.Changes)
	}
	for _, o := range p.Overrides {
		raise(o.Changes)
	}
	return most
}

// mistakes returns notes about keys and limits that are valid but probably wrong.
func mistakes(p *policy.Definition, compiled *engine.Compiled) (notes []string) {
	notes = definition.FormNotes(p)
	for _, limit := range definition.Closed(p) {
		const note = "line %d: limit %s of %s allows 0 units, so every attempt is denied; " +
			"write unlimited for no bound, or shadow: true to deny nothing"
		notes = append(notes, fmt.Sprintf(note, p.Line, limit, p.Name))
	}
	for i, l := range p.Limits {
		c := &compiled.Limits[i]
		most := maxOf(p, i, c, func(l *engine.Limit) int64 { return l.Capacity })
		if l.Cost > most {
			const note = "line %d: an attempt costs %d of limit %s of %s, which allows %d, " +
				"so no attempt is ever allowed"
			notes = append(notes, fmt.Sprintf(note, p.Line, l.Cost, l.Name, p.Name, most))
		}
		longest, reason := answer.Longest(c)
		if b := l.Block; b > 0 && b < longest {
			const note = "line %d: limit %s of %s blocks for %s, " +
				"and without a block it denies for up to %s, %s; make the block longer"
			notes = append(notes, fmt.Sprintf(note, p.Line, l.Name, p.Name, duration.Format(b),
				duration.Format(longest), reason))
		}
	}
	return notes
}
