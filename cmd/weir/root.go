package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// run executes a command line and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	stderr = printable{stderr}
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	return report(stderr, cmd, err)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "An exact rolling-window rate limiter",
		Long: `Weir decides whether an action may go ahead. "10 per minute" means: never more
than 10 in any minute, wherever the minute begins.`,
		Example: `  weir serve                                          # decisions over HTTP, built-in policies
  weir validate weir.yaml                             # is the policy file right?
  weir check --policies weir.yaml search ip=192.0.2.7 # one decision, exit code 0 or 1
  weir test weir.yaml                                 # do the policies do what they are meant to?
  weir replay --policies weir.yaml trace.jsonl        # what would have happened?
  weir top                                            # whose attempts does a running weir deny most?`,
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
	root.AddCommand(serveCommand(), validateCommand(), checkCommand(), testCommand(), replayCommand(), topCommand(), readyCommand(), snippetCommand())
	return root
}

// helpOrUnknownVerb runs when no verb was recognised.
func helpOrUnknownVerb(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	next := "the verbs are serve, validate, check, test, replay, top, ready and snippet; weir -h explains them"
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		next = "did you mean weir " + strings.Join(near, " or weir ") + "?"
	}
	return usage(next, "%q is not a verb of weir", args[0])
}

// wantArgs refuses fewer than least or more than most arguments. what names the
// one the verb takes, "" if none.
func wantArgs(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		taken := "only " + what + " is taken"
		if what == "" {
			taken = "only flags are taken"
		}
		next := fmt.Sprintf("%s -h shows examples", cmd.CommandPath())
		switch {
		case len(args) < least:
			return usage(next, "%s is missing", what)
		case len(args) > most:
			return usage(next, "%q is one argument too many; %s", args[most], taken)
		}
		return nil
	}
}
