package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlimit/weir/policy"
)

// A setting of weir serve is a flag, and the key of that name in the configuration file.
type setting struct {
	name      string // the flag and the key
	short     string // one-letter form of the flag; "" if there is none
	value     settingValue
	help      string
	common    bool                      // listed by weir serve -h without --all
	variables []string                  // the environment variables that take precedence over the file
	shown     func(value string) string // the value without secrets; nil = as it is

	source string        // the source of the value: --NAME, $VARIABLE or FILE:LINE; "" for the default
	place  *policy.Error // the place of the value in the configuration file, nil if it is not there
}

// A section groups settings in the help and in the configuration file.
type section struct {
	name     string // key of the file; "" for settings that stand outside of sections
	heading  string // heading in the help
	settings []*setting
}

// title returns the name of the section in messages.
func (s *section) title() string {
	if s.name == "" {
		return "the top level of the file"
	}
	return "section " + s.name
}

// settings is the table of all settings.
type settings []section

// named returns the section of that name, or nil.
func (t settings) named(name string) *section {
	if i := slices.IndexFunc(t, func(s section) bool { return s.name == name }); i >= 0 {
		return &t[i]
	}
	return nil
}

// all returns the settings in their order.
func (t settings) all() (all []*setting) {
	for _, each := range t {
		all = append(all, each.settings...)
	}
	return all
}

// setting returns the setting of that name, or nil.
func (t settings) setting(name string) *setting {
	all := t.all()
	if i := slices.IndexFunc(all, func(s *setting) bool { return s.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// section returns the section of a setting.
func (t settings) section(s *setting) *section {
	return &t[slices.IndexFunc(t, func(each section) bool { return slices.Contains(each.settings, s) })]
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
	for _, section := range t {
		for _, s := range section.settings {
			flag := f.VarPF(s.value, s.name, s.short, s.help)
			for _, name := range s.variables[:min(1, len(s.variables))] {
				flag.Usage += "; or set $" + name
			}
			if s.value.Type() == "bool" {
				flag.NoOptDefVal = "true"
			}
			if !s.common {
				f.SetAnnotation(s.name, rareAnnotation, []string{""})
			}
		}
		group(cmd, section.heading+":")
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
	for _, s := range t.all() {
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

// A settingValue is the value of a setting.
type settingValue interface {
	pflag.Value
	form() *form
}
