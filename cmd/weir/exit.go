package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirredis"
)

// Exit codes are part of the contract with scripts.
const (
	exitOK     = 0 // allowed, or done
	exitDenied = 1 // denied, not ready, or a test failed
	exitUsage  = 2 // the command line, a policy, an input or a file is wrong
	exitStore  = 3 // the store, or the running weir, cannot be reached
)

// errDenied ends a verb with exitDenied and no message: the output has the reason.
var errDenied = errors.New("denied")

// A failure is an error with its exit code and the next step for the user.
type failure struct {
	code int
	err  error
	next string // "" if the error names it
}

// Error returns the message without the next step.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// unprefixed is an error inside a message. Its text omits the prefix of its package, because
// the message begins with the name of the program.
type unprefixed struct{ error }

func (e unprefixed) Error() string {
	return strings.TrimPrefix(strings.TrimPrefix(e.error.Error(), "weir: "), "weirdisk: ")
}

func (e unprefixed) Unwrap() error { return e.error }

// usage returns a failure of the command line or of a file that it names.
func usage(next, format string, args ...any) error {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = unprefixed{err}
		}
	}
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), next: next}
}

// unreachableStore returns the failure of a store that cannot be reached. Errors of Redis name
// the next step themselves.
func unreachableStore(store string, err error) error {
	f := &failure{code: exitStore, err: fmt.Errorf("store %s: %w", store, unprefixed{err})}
	if !errors.As(err, new(*weirredis.StoreError)) && !errors.Is(err, weirredis.ErrState) {
		f.next = "is the store up, and is --store right?"
	}
	return f
}

// reportError writes the message of err to stderr, if it has one, and returns the exit code.
func reportError(stderr io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errDenied) {
		return exitDenied
	}
	if all, joined := err.(interface{ Unwrap() []error }); joined {
		for _, each := range all.Unwrap() {
			reportError(stderr, cmd, each)
		}
		return exitUsage
	}
	if _, bad := errors.AsType[*policy.Error](err); bad {
		fmt.Fprintln(stderr, err) // begins with file:line:column, which editors follow
	} else {
		fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), unprefixed{err})
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		return exitUsage
	}
	if f.next != "" {
		fmt.Fprintf(stderr, "  %s\n", f.next)
	}
	return f.code
}

// otherNames maps names of flags in other programs to those of weir.
var otherNames = map[string]string{
	"port": "listen", "p": "listen", "addr": "listen", "address": "listen", "bind": "listen",
	"file": "policies", "redis": "store", "maxmemory": "max-memory", "count": "units",
}

// didYouMean returns the next step for an unknown name: the most similar known one, or
// otherwise.
func didYouMean(name string, known []string, otherwise string) string {
	if near := nearest.Name(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return otherwise
}

// wrongFlag returns the failure for an error of pflag.
func wrongFlag(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrongValue(invalid)
	}
	next := cmd.CommandPath() + " -h shows the flags"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		typed := unknown.GetSpecifiedName()
		name := didYouMeanFlag(cmd, typed)
		if name != "" {
			next = "did you mean --" + name + "?"
		}
		isUnlikely := name == "" || len(typed) < 4 // a short name is similar to many flags
		if isUnlikely && strings.Contains(cmd.Use, "key=value") {
			next = "a key has no dashes: write " + typed + "=VALUE"
		}
	}
	return usage(next, "%w", err)
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

// wrongValue returns the failure for a value that its flag rejects.
func wrongValue(e *pflag.InvalidValueError) error {
	flag := e.GetFlag()
	wrong, ok := errors.AsType[*failure](e)
	if !ok {
		wrong, ok = errors.AsType[*failure](builtInFailure(flag.Value.Type(), e.GetValue()))
	}
	if !ok {
		return usage("", "--%s: %w", flag.Name, e.Unwrap())
	}
	name := "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand + ", " + name
	}
	return usage(wrong.next, "%s %w", name, wrong)
}

// builtInFailure returns the failure for a text that a flag of a type of pflag rejects, or nil
// for other types. Errors of pflag itself show those of package strconv.
func builtInFailure(kind, text string) error {
	switch kind {
	case "bool":
		return wrongBool(text)
	case "duration":
		return wrongDuration(text)
	}
	return nil
}
