// Command weir checks policy files, makes single decisions, replays traces, and
// serves decisions to other programs.
//
// Data goes to stdout and messages go to stderr. Each verb that prints data has
// --json. The exit code is 0 for allowed or done, 1 for denied, 2 for a wrong
// command line, policy or input, and 3 for a store that cannot be reached. Output
// has no colours.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	_ "time/tzdata" // time zones also where the system has no data of them

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes a command line and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	stderr = printable{stderr}
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	return exitCode(stderr, cmd, err)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:                        "weir VERB",
		Short:                      "An exact rolling-window rate limiter",
		Version:                    versionLine(),
		Args:                       cobra.ArbitraryArgs,
		RunE:                       helpOrUnknownVerb,
		DisableFlagsInUseLine:      true,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(wrongFlag)
	setHelp(root)
	addVerbs(root, "Policies:", validateCommand(), testCommand(), checkCommand(), replayCommand(), suggestCommand())
	addVerbs(root, "Service:", serveCommand(), configCommand(), readyCommand(), topCommand(), storeCommand(), snippetCommand())
	addVerbs(root, "Other:", versionCommand(), helpCommand(root))
	root.SetCompletionCommandGroupID("Other:")
	return root
}

// helpOrUnknownVerb runs when the command line has no verb, or an unknown one.
func helpOrUnknownVerb(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	return unknownVerb(root, args[0])
}

func unknownVerb(root *cobra.Command, name string) error {
	next := "the verbs are " + strings.Join(verbs(root), ", ") + "; weir -h explains them"
	if near := root.SuggestionsFor(name); len(near) > 0 {
		next = "did you mean weir " + strings.Join(near, " or weir ") + "?"
	}
	return usage(next, "%q is not a verb of weir", name)
}

func verbs(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// withVerbs returns the command of a verb that has verbs itself.
func withVerbs(use, short, next string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usage(next, "%s has no verb %q", cmd.CommandPath(), args[0])
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// wantArgs rejects fewer than least or more than most arguments. name is that of
// the argument in the usage line, "" for a verb without arguments.
func wantArgs(least, most int, name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		takes := "only " + name + " is taken"
		if name == "" {
			takes = "only flags are taken"
		}
		next := fmt.Sprintf("%s -h shows examples", cmd.CommandPath())
		switch {
		case len(args) < least:
			return usage(next, "%s is missing", name)
		case len(args) > most:
			return usage(next, "%q is one argument too many; %s", args[most], takes)
		}
		return nil
	}
}
