package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlimit/weir/policy"
)

// A setting of weir serve is a flag, and the key of that name in the configuration file.
type setting struct {
	name      string // the flag and the key
	short     string // one-letter form of the flag; "" if there is none
	value     *value
	help      string
	common    bool                      // listed by weir serve -h without --all
	variables []string                  // the environment variables that take precedence over the file
	shown     func(value string) string // the value without secrets; nil = as it is

	section section
	source  string        // the source of the value: --NAME, $VARIABLE or FILE:LINE; "" for the default
	place   *policy.Error // the place of the value in the configuration file, nil if it is not there
}

// A section groups settings in the help and in the configuration file.
type section struct {
	name    string // key of the file; "" for settings that stand outside of sections
	heading string // heading in the help
}

// String returns the name of the section in messages.
func (s section) String() string {
	if s.name == "" {
		return "the top level of the file"
	}
	return "section " + s.name
}

// settings is the table of all settings, by sections.
type settings []*setting

// in returns the settings of a section.
func (t settings) in(section string) (some settings) {
	for _, s := range t {
		if s.section.name == section {
			some = append(some, s)
		}
	}
	return some
}

// setting returns the setting of that name, or nil.
func (t settings) setting(name string) *setting {
	for _, s := range t {
		if s.name == name {
			return s
		}
	}
	return nil
}

// add adds settings in a section.
func (t *settings) add(name, heading string, all ...*setting) {
	for _, s := range all {
		s.section = section{name, heading}
	}
	*t = append(*t, all...)
}

// allFlag is the flag with which help lists every setting.
const allFlag = "all"

// rareAnnotation marks the flags that are not common.
const rareAnnotation = "rare"

// settingFlags are the flags beside those of the settings.
type settingFlags struct {
	file string // configuration file
	all  bool
}

// add adds them, and a flag for each setting.
func (o *settingFlags) add(cmd *cobra.Command, t settings) {
	f := cmd.Flags()
	f.StringVarP(&o.file, "config", "c", "", "the configuration `FILE`, such as weir-serve.yaml, in which each setting is a key; flags and the environment override it")
	f.BoolVar(&o.all, allFlag, false, "show all flags, also the rarer ones")
	group(cmd, "Configuration:")
	for _, s := range t {
		flag := f.VarPF(s.value, s.name, s.short, s.help)
		if len(s.variables) > 0 {
			flag.Usage += "; or set $" + s.variables[0]
		}
		if s.value.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
		if !s.common {
			f.SetAnnotation(s.name, rareAnnotation, []string{""})
		}
		group(cmd, s.section.heading+":")
	}
	for _, name := range []string{"config", "policies"} {
		cmd.MarkFlagFilename(name, "yaml", "yml")
	}
}

// run sets the values of t and calls do, or prints the help with --all.
func (o *settingFlags) run(cmd *cobra.Command, t settings, do func() error) error {
	if o.all {
		return cmd.Help()
	}
	if err := t.resolve(cmd.Flags(), o.file); err != nil {
		return err
	}
	return do()
}

// resolve sets the sources of all values, and the values of the configuration file that no
// flag and no variable replaces. path is "" without a file.
func (t settings) resolve(flags *pflag.FlagSet, path string) error {
	for _, s := range t {
		if flags.Changed(s.name) {
			s.source = "--" + s.name
			continue
		}
		for _, name := range s.variables {
			// An empty secret is an error. An empty variable of OpenTelemetry is unset.
			text, set := os.LookupEnv(name)
			if set && s.source == "" && (text != "" || strings.HasPrefix(name, "WEIR_")) {
				s.source = "$" + name
			}
		}
	}
	if path == "" {
		return nil
	}
	values, err := loadSettings(path)
	if err != nil {
		return err
	}
	for _, v := range values {
		if s := t.setting(v.name); s.source == "" {
			v.apply(s)
		}
	}
	return nil
}

// label returns the source of the value and the name of the setting, for error messages.
func (s *setting) label() string {
	switch {
	case s.place != nil:
		return s.source + ": " + s.name
	case strings.HasPrefix(s.source, "$"):
		return s.source
	}
	return "--" + s.name
}

// wrong returns the failure for a value that does not fit other settings. The problem
// goes on from the name of the setting.
func (s *setting) wrong(next, problem string, args ...any) error {
	if s.place == nil {
		return usage(next, "--"+s.name+" "+problem, args...)
	}
	at := *s.place
	at.Problem, at.Next = s.name+" "+fmt.Sprintf(problem, args...), next
	return &failure{code: exitUsage, err: &at}
}

// shownValue returns the value in a form without secrets, "" for none.
func (s *setting) shownValue() string {
	text := s.value.String()
	if s.shown != nil && text != "" {
		return s.shown(text)
	}
	return text
}
