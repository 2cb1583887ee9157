package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/internal/policyfile"
	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/internal/yamlnode"
	"github.com/weirlimit/weir/policy"
)

func configCommand() *cobra.Command {
	check := newCommand("check FILE...", "Check configuration files of weir serve",
		wantArgs(1, math.MaxInt, "FILE"),
		func(cmd *cobra.Command, paths []string) error { return checkFiles(cmd, paths, checkConfig) })
	show := settingsCommand("print", "Print the settings of weir serve with the source of each",
		func(cmd *cobra.Command, _ *serveOptions, table settings) error {
			return printResult(cmd, cmd.OutOrStdout(), table.printed(), table.write)
		})
	return newParentCommand("config check|print", "Check or print the configuration of weir serve",
		withJSON(check, jsonOfFiles),
		withJSON(show, "print a JSON array with an object for each setting"))
}

// validConfig is the output of weir config check --json for a good file.
type validConfig struct {
	File     string `json:"file"`
	OK       bool   `json:"ok"` // true
	Settings int    `json:"settings"`
}

// checkConfig checks a configuration file alone. It ignores the environment, and opens none of
// the files that the settings name.
func checkConfig(path string) (validResult, error) {
	var o serveOptions
	table := o.bindSettings()
	n, err := table.load(path)
	if err := errors.Join(err, o.check(table)); err != nil {
		return nil, err
	}
	return &validConfig{path, true, n}, nil
}

// write writes the result for people.
func (v *validConfig) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s: ok, %s\n", v.File, counted(v.Settings, "setting", "settings"))
}

// printedSetting is an element of the output of weir config print --json.
type printedSetting struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Value   string `json:"value"`  // as the flag reads it, without secrets; "" for none
	Source  string `json:"source"` // default, --FLAG, $VARIABLE or FILE:LINE
}

// printed returns the settings for weir config print.
func (t settings) printed() []printedSetting {
	var all []printedSetting
	for _, s := range t {
		all = append(all, printedSetting{
			Section: s.section.name,
			Name:    s.name,
			Value:   s.shownValue(),
			Source:  cmp.Or(s.source, "default"),
		})
	}
	return all
}

// write writes the settings as a configuration file. Comments name the source of each value.
func (t settings) write(b *strings.Builder) {
	var rows [][]string
	section := ""
	for _, p := range t.printed() {
		indent := ""
		if p.Section != "" {
			indent = "  "
		}
		if p.Section != section {
			section = p.Section
			rows = append(rows, []string{section + ":", ""})
		}
		line := p.Name + ": " + p.Value
		switch {
		case p.Value == "":
			line = "# " + p.Name + ":"
		case t.setting(p.Name).value.Type() == "string":
			line = p.Name + ": " + strconv.Quote(p.Value)
		}
		rows = append(rows, []string{indent + line, "# " + p.Source})
	}
	writeTable(b, "ll", rows)
}

// load reads a configuration file. It sets the values that no flag and no variable sets, and
// returns the number of settings in the file. The error joins all errors of the file.
func (t settings) load(path string) (int, error) {
	src, err := enforce.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, found := t.parse(path, src)
	if len(found) == 0 {
		return n, nil
	}
	var all []error
	for _, each := range found {
		all = append(all, each)
	}
	return 0, errors.Join(all...)
}

// parse reads the text of a configuration file. name is used in messages only.
func (t settings) parse(name string, src []byte) (int, []*policy.Error) {
	if len(src) > policyfile.MaxBytes {
		return 0, []*policy.Error{{
			File:    name,
			Problem: "the file is larger than 256 KiB",
			Next:    "write the settings of one weir serve",
		}}
	}
	document, err := yamlnode.Read(src)
	f := settingsFile{
		name:       name,
		document:   document,
		table:      t,
		overridden: new(serveOptions).bindSettings(),
	}
	if err != nil {
		f.addError(err.Offset, err.Next, "%s", err.Problem)
	} else {
		f.readRoot(&document.Root)
	}
	return f.count, f.errors
}

// settingsFile is a configuration file while it is read.
type settingsFile struct {
	name     string
	document *yamlnode.Document
	table    settings

	// overridden receives the values that a flag or a variable overrides, so that they are
	// checked as well.
	overridden settings

	count  int // settings in the file
	errors []*policy.Error
}

// placeOf returns the place of an offset with the text of its line. If the line may hold a
// password, a token or a secret, only the key remains of the text.
func (f *settingsFile) placeOf(offset int) *policy.Error {
	line, column, source := f.document.Position(offset)
	isPrivate := slices.ContainsFunc([]string{"://", "@", "token", "secret"},
		func(mark string) bool { return strings.Contains(source, mark) })
	if key, _, found := strings.Cut(source, ":"); found && isPrivate {
		source = key + ": …"
	}
	return &policy.Error{File: f.name, Line: line, Column: column, Source: source}
}

// maxErrors is the largest number of errors that are reported for one file.
const maxErrors = 50

// addError adds an error at an offset, unless the file has maxErrors already.
func (f *settingsFile) addError(offset int, next, problem string, args ...any) {
	if len(f.errors) < maxErrors {
		e := f.placeOf(offset)
		e.Problem, e.Next = fmt.Sprintf(problem, args...), next
		f.errors = append(f.errors, e)
	}
}

// readRoot reads the whole file. An empty file or section sets nothing.
func (f *settingsFile) readRoot(n *yamlnode.Node) {
	if n.Kind != yamlnode.Map && !n.Null() {
		f.addError(n.Offset, "write a section such as listeners: with its settings below",
			"the file is a %s, not a map of sections", n.Type())
	}
	for key, value := range n.Pairs() {
		settings := f.table.inSection(key.Text)
		switch {
		case len(settings) == 0 || key.Text == "":
			f.readSetting(section{}, key, value)
		case value.Kind != yamlnode.Map && !value.Null():
			f.addError(value.Offset, "write its settings below it, one a line, indented",
				"%s is a section, not a %s", key.Text, value.Type())
		default:
			for key, value := range value.Pairs() {
				f.readSetting(settings[0].section, key, value)
			}
		}
	}
}

// readSetting reads a key of a section with its value.
func (f *settingsFile) readSetting(in section, key, value *yamlnode.Node) {
	s := f.table.setting(key.Text)
	if s == nil || s.section.name != in.name {
		f.reportUnknown(in, s, key)
		return
	}
	f.count++
	if s.source == "" {
		s.place = f.placeOf(value.Offset)
		s.source = fmt.Sprintf("%s:%d", s.place.File, s.place.Line)
	} else {
		s = f.overridden.setting(s.name)
	}
	if value.Kind != yamlnode.List || s.value.Type() != "names" {
		f.readValue(s, value)
	}
	for item := range value.Items() {
		f.readValue(s, item)
	}
}

// readValue sets a setting to a value, or adds the error of a wrong value.
func (f *settingsFile) readValue(s *setting, n *yamlnode.Node) {
	switch {
	case n.Null():
		f.addError(n.Offset, "write one, or remove the key", "%s has no value", s.name)
	case n.Kind != yamlnode.Scalar:
		f.addError(n.Offset, "write the value behind the colon",
			"%s takes one value, not a %s", s.name, n.Type())
	case n.Text == "" && s.value.Type() == "string":
		f.addError(n.Offset, "write one, or remove the key", "%s is empty", s.name)
	default:
		if wrong := new(failure); errors.As(s.value.Set(n.Text), &wrong) {
			f.addError(n.Offset, wrong.next, "%s %v", s.name, wrong)
		}
	}
}

// reportUnknown adds the error of a key that is not a setting of its section. elsewhere is the
// setting with that name in another section, or nil.
func (f *settingsFile) reportUnknown(in section, elsewhere *setting, key *yamlnode.Node) {
	if elsewhere != nil {
		f.addError(key.Offset, fmt.Sprintf("move it to %v", elsewhere.section),
			"%s does not belong in %v", elsewhere.name, in)
		return
	}
	var here, all []string
	for _, s := range f.table {
		all = append(all, s.name)
		if s.section.name == in.name {
			here = append(here, s.name)
		} else if in.name == "" && !slices.Contains(here, s.section.name) {
			here = append(here, s.section.name)
		}
	}
	next := "it has " + strings.Join(here, ", ")
	if near := f.table.setting(nearest.Name(key.Text, all)); near != nil {
		next = fmt.Sprintf("did you mean %s, in %v?", near.name, near.section)
	}
	next = didYouMean(key.Text, here, next)
	if in.name == "" && key.Text == "version" {
		next = "this is a policy file: write --policies " + f.name
	}
	f.addError(key.Offset, next, "%v has no %s", in, shorten.Quoted(redact.URL(key.Text)))
}
