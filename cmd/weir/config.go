package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"
)

func configCommand() *cobra.Command {
	return withVerbs("config check|print", "Check or print the configuration of weir serve",
		"write weir config check FILE, or weir config print", configCheckCommand(), configPrintCommand())
}

func configCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check configuration files of weir serve",
		Args:  wantArgs(1, math.MaxInt, "FILE"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			return checkFiles(cmd, paths, asJSON, checkConfig)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object for each file")
	return cmd
}

// validConfig is the output of weir config check --json for a good file.
type validConfig struct {
	File     string `json:"file"`
	OK       bool   `json:"ok"` // true
	Settings int    `json:"settings"`
}

// checkConfig checks a configuration file without the environment and without the files that
// it names.
func checkConfig(path string) (validResult, error) {
	var o serveOptions
	table := o.table()
	values, err := loadSettings(path)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		v.apply(table.setting(v.name))
	}
	if err := o.check(table); err != nil {
		return nil, err
	}
	return &validConfig{path, true, len(values)}, nil
}

// text returns the result for people.
func (v *validConfig) text() string {
	return fmt.Sprintf("%s: ok, %s\n", v.File, counted(v.Settings, "setting", "settings"))
}

func configPrintCommand() *cobra.Command {
	var o serveOptions
	var flags settingFlags
	var asJSON bool
	table := o.table()
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the settings of weir serve with the source of each",
		Args:  wantArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd, table, func() error {
				o.envoy.readEnvironment(table, io.Discard)
				out := printable{cmd.OutOrStdout()}
				if asJSON {
					return printJSON(out, table.printed())
				}
				return table.print(out)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array with an object for each setting")
	flags.add(cmd, table)
	return cmd
}

// printedSetting is an element of the output of weir config print --json.
type printedSetting struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Value   string `json:"value"`  // as the flag reads it, without secrets; "" for none
	Source  string `json:"source"` // default, --FLAG, $VARIABLE or FILE:LINE
}

func (t settings) printed() []printedSetting {
	var all []printedSetting
	for _, s := range t {
		all = append(all, printedSetting{s.section.name, s.name, s.shownValue(), cmp.Or(s.source, "default")})
	}
	return all
}

// print writes the settings as a configuration file with the sources as comments.
func (t settings) print(out io.Writer) error {
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
		case t.setting(p.Name).value.kind == "string":
			line = p.Name + ": " + strconv.Quote(p.Value)
		}
		rows = append(rows, []string{indent + line, "# " + p.Source})
	}
	return writeTable(out, "ll", rows)
}
