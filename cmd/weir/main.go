// Command weir checks policy files, makes single decisions, replays traces, and
// serves decisions to other programs.
//
// A verb is a subcommand, such as serve. Data goes to stdout and messages go to stderr.
// Each verb that prints data has --json. Output has no colours. The exit code is
//   - 0 for allowed or done,
//   - 1 for denied,
//   - 2 for a wrong command line, policy or input,
//   - 3 for a store that cannot be reached.
package main

import (
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	_ "time/tzdata" // time zones for systems without their data

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlimit/weir"
)

// init sets the variables of cobra that all commands of the process share.
func init() {
	cobra.AddTemplateFunc("flagGroups", flagGroups)
	cobra.EnableCommandSorting = false // the help keeps the order of addVerbs
}

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
	return reportError(stderr, cmd, err)
}

// rootCommand returns the command weir with all verbs.
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
	root.SetUsageTemplate(usageTemplate)
	setHelpText(root)
	addVerbs(root, "Policies:",
		initCommand(), validateCommand(), testCommand(), checkCommand(), peekCommand(), replayCommand(), suggestCommand())
	addVerbs(root, "Service:",
		settingsCommand("serve", "Serve decisions over HTTP", serve), configCommand(), readyCommand(),
		topCommand(), explainCommand(), resetCommand(), blockCommand(), overridesCommand(),
		storeCommand(), snippetCommand())
	addVerbs(root, "Other:", auditCommand(), versionCommand(), helpCommand(root))
	root.SetCompletionCommandGroupID("Other:")
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args = cobra.ArbitraryArgs
	completion.RunE = helpOrUnknownVerb // cobra prints help for a wrong shell, and no error
	return root
}

// helpOrUnknownVerb prints the help of cmd, or rejects its first argument as an unknown verb.
func helpOrUnknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownVerb(cmd, args[0])
}

// unknownVerb returns the failure for a name that is no verb of cmd. The next step names
// similar verbs or all of them.
func unknownVerb(cmd *cobra.Command, name string) error {
	path := cmd.CommandPath()
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return usage("did you mean "+path+" "+strings.Join(near, " or "+path+" ")+"?",
			"%q is not a verb of %s", name, path)
	}
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			verbs = append(verbs, c.Name())
		}
	}
	return usage("the verbs are "+strings.Join(verbs, ", ")+"; "+path+" -h explains them",
		"%q is not a verb of %s", name, path)
}

// newCommand returns the cobra command of a verb. It rejects empty flags before it calls run.
func newCommand(
	use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error,
) *cobra.Command {
	checkAndRun := func(cmd *cobra.Command, args []string) error {
		if err := rejectEmptyFlags(cmd.Flags()); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: checkAndRun}
}

// rejectEmptyFlags rejects a flag with an empty text, which is probably a mistake.
func rejectEmptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = usage("is a $VARIABLE in it unset? give a value, or leave the flag out",
				"--%s is empty", f.Name)
		}
	})
	return err
}

// newParentCommand returns the command of a verb with verbs of its own, such as weir store.
func newParentCommand(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := newCommand(use, short, cobra.ArbitraryArgs, helpOrUnknownVerb)
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(verbs...)
	return cmd
}

// wantArgs rejects fewer than least or more than most arguments. name is the argument's name in
// the usage line, or "" for a verb without arguments.
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
		case len(args) > most && isPolicyFile(args[most]) && cmd.Flags().Lookup("policies") != nil:
			return usage("write "+cmd.CommandPath()+" --policies "+args[most],
				"%q is one argument too many; a policy file is named by --policies", args[most])
		case len(args) > most && weir.ValidName(args[most]) && cmd.Flags().Lookup("policy") != nil:
			return usage("write --policy "+args[most],
				"%q is one argument too many; %s", args[most], takes)
		case len(args) > most:
			return usage(next, "%q is one argument too many; %s", args[most], takes)
		}
		return nil
	}
}

// isPolicyFile reports whether an argument looks like the name of a policy file.
func isPolicyFile(name string) bool {
	ending := filepath.Ext(name)
	return ending == ".yaml" || ending == ".yml" || ending == ".json"
}

// helpWidth is the width of the lists of flags, in columns.
const helpWidth = 100

// helpTexts has the help. VERB.txt has the description and the examples of a verb, weir.txt
// those of the program. settings.txt has the help of the settings of weir serve.
//
//go:embed help
var helpTexts embed.FS

// usageTemplate is the part of a verb's help below its description.
//
//go:embed help/usage.tmpl
var usageTemplate string

// setHelpText sets the description and the examples of cmd from help/NAME.txt, if there is that
// file. A verb below cmd gets the examples that use it.
func setHelpText(cmd *cobra.Command) {
	text, _ := helpTexts.ReadFile("help/" + cmd.Name() + ".txt")
	cmd.Long, cmd.Example, _ = strings.Cut(strings.TrimSuffix(string(text), "\n"),
		"\n\nExamples:\n")
	for _, verb := range cmd.Commands() {
		verb.Example = examplesOf(cmd.Example, "  weir "+cmd.Name()+" "+verb.Name())
	}
}

// examplesOf returns those lines of examples that begin with command.
func examplesOf(examples, command string) string {
	var own []string
	for line := range strings.Lines(examples) {
		if strings.HasPrefix(line, command) {
			own = append(own, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(own, "\n")
}

// addVerbs adds verbs under a heading of the help.
func addVerbs(root *cobra.Command, heading string, verbs ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, verb := range verbs {
		verb.GroupID = heading
		setHelpText(verb)
	}
	root.AddCommand(verbs...)
}

// groupAnnotation is the annotation of a flag that holds its heading in the help.
const groupAnnotation = "group"

// groupFlags puts all flags of cmd that have no heading yet under a heading of the help.
func groupFlags(cmd *cobra.Command, heading string) {
	cmd.Flags().SortFlags = false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[groupAnnotation] == nil {
			cmd.Flags().SetAnnotation(f.Name, groupAnnotation, []string{heading})
		}
	})
}

// flagGroups returns the help of the flags of cmd, by headings in the order of their first
// flags. A verb with settings shows only the common ones, unless --all is given.
func flagGroups(cmd *cobra.Command) string {
	var headings []string
	groups := map[string]*pflag.FlagSet{}
	all := cmd.Flags().Lookup(allFlag)
	rare := 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[rareAnnotation] != nil && !all.Changed {
			rare++
			return
		}
		heading := "Flags:"
		if given := f.Annotations[groupAnnotation]; given != nil {
			heading = given[0]
		}
		if groups[heading] == nil {
			groups[heading] = pflag.NewFlagSet("", pflag.ContinueOnError)
			groups[heading].SortFlags = false
			headings = append(headings, heading)
		}
		groups[heading].AddFlag(f)
	})
	var b strings.Builder
	for _, heading := range headings {
		b.WriteString("\n\n" + heading + "\n" +
			strings.TrimRight(groups[heading].FlagUsagesWrapped(helpWidth), "\n"))
	}
	if rare > 0 {
		fmt.Fprintf(&b, "\n\n%s -h --all shows %d more flags.", cmd.CommandPath(), rare)
	}
	return strings.TrimLeft(b.String(), "\n")
}

func helpCommand(root *cobra.Command) *cobra.Command {
	cmd := newCommand("help [VERB]", "Explain a verb", wantArgs(0, 2, "VERB"),
		func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return root.Help()
			}
			verb, rest, err := root.Find(args)
			if err != nil || verb == root || len(rest) > 0 {
				return unknownVerb(root, strings.Join(args, " "))
			}
			verb.InitDefaultHelpFlag()
			return verb.Help()
		})
	root.SetHelpCommand(cmd)
	return cmd
}

func versionCommand() *cobra.Command {
	return newCommand("version", "Print the version", wantArgs(0, 0, ""),
		func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "weir %s\n", versionLine())
			return err
		})
}

// version returns the version that the go command wrote into the binary, such as
// v1.2.3 or (devel).
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}

// versionLine returns the version, the platform and the version of Go.
func versionLine() string {
	return fmt.Sprintf("%s %s/%s %s", version(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
