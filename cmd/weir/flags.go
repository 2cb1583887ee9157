package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weirlimit/weir/internal/nearest"
)

// otherNames maps flags of other programs to those of weir.
var otherNames = map[string]string{
	"port": "listen", "p": "listen", "addr": "listen", "address": "listen", "bind": "listen",
	"file": "policies", "redis": "store", "maxmemory": "max-memory", "count": "units",
}

// wrongFlag returns the failure for an error of pflag.
func wrongFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		next := cmd.CommandPath() + " -h shows the flags"
		if name := didYouMeanFlag(cmd, unknown.GetSpecifiedName()); name != "" {
			next = "did you mean --" + name + "?"
		}
		return usage(next, "%w", err)
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return wrongValue(invalid)
	}
	return usage(cmd.CommandPath()+" -h shows the flags", "%w", err)
}

// didYouMeanFlag returns the flag of cmd that an unknown name probably means, or "".
func didYouMeanFlag(cmd *cobra.Command, typed string) string {
	if name := otherNames[typed]; cmd.Flags().Lookup(name) != nil {
		return name
	}
	if len(typed) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return nearest.Name(typed, names)
}

// wrongValue returns the failure for a value that is not of its flag's type.
func wrongValue(e *pflag.InvalidValueError) error {
	flag := e.GetFlag()
	name := "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand + ", " + name
	}
	wrong := new(valueError)
	if errors.As(e, &wrong) || errors.As(misread(flag.Value.Type(), e.GetValue()), &wrong) {
		return usage(wrong.next, "%s %s", name, wrong.problem)
	}
	return usage("", "%s: %w", name, e.Unwrap())
}
