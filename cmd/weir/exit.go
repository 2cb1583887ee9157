package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirredis"
)

// Exit codes are part of the contract with scripts.
const (
	exitOK     = 0 // allowed, or done
	exitDenied = 1 // the decision was no, or a test failed
	exitUsage  = 2 // the command line, a policy, an input or a file is wrong
	exitStore  = 3 // the store could not be asked
)

// errDenied ends a check whose answer was no: an exit code and no message.
var errDenied = errors.New("denied")

// A failure is an error with its exit code and the next step for the user.
type failure struct {
	code int
	err  error
	next string // "" when the error says it itself
}

// Error is the message without the next step.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// usage is a failure of the command line or of a file it names.
func usage(next, format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), next: next}
}

// unreachable is a failure of the store. Errors of Redis say the next step
// themselves.
func unreachable(store string, err error) error {
	f := &failure{code: exitStore, err: fmt.Errorf("store %s: %w", store, err)}
	var redis *weirredis.StoreError
	if !errors.As(err, &redis) && !errors.Is(err, weirredis.ErrState) {
		f.next = "is the store up, and is --store right?"
	}
	return f
}

// report writes what went wrong, where there is something to say, and returns
// the exit code.
func report(stderr io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errDenied) || errors.Is(err, errTestsFailed) {
		return exitDenied
	}
	var bad *policy.Error
	if errors.As(err, &bad) {
		fmt.Fprintln(stderr, bad) // begins with file:line:column, which editors follow
	} else {
		fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	}
	var f *failure
	if !errors.As(err, &f) {
		return exitUsage
	}
	if f.next != "" {
		fmt.Fprintf(stderr, "  %s\n", f.next)
	}
	return f.code
}

// wrongFlag turns pflag's errors into failures, with the flag that was meant.
func wrongFlag(cmd *cobra.Command, err error) error {
	next := cmd.CommandPath() + " -h shows the flags"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest.Name(unknown.GetSpecifiedName(), names); near != "" {
			next = "did you mean --" + near + "?"
		}
	}
	return usage(next, "%w", err)
}
