package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/weirlimit/weir/policy"
)

func TestReport(t *testing.T) {
	_, badPolicy := policy.Parse("weir.yaml", []byte("version: 2\n"))
	if badPolicy == nil {
		t.Fatal("version 2 was read")
	}
	for _, c := range []struct {
		err  error
		code int
		talk string
	}{
		{nil, 0, ""},
		{errDenied, 1, ""},
		{errors.New("disk full"), 2, "weir: disk full\n"},
		{errors.New("weir: cannot listen"), 2, "weir: cannot listen\n"},
		{usage("", "-n: %w", errors.New("weir: bad number")), 2, "weir: -n: bad number\n"},
		{usage("", "no such thing"), 2, "weir: no such thing\n"},
		{usage("try another", "no such thing"), 2, "weir: no such thing\n  try another\n"},
		{&failure{code: exitUsage, err: badPolicy}, 2, badPolicy.Error() + "\n"},
		{fmt.Errorf("line 7: %w", unreachableStore("redis://h", errors.New("connection refused"))), 3,
			"weir: line 7: store redis://h: connection refused\n  is the store up, and is --store right?\n"},
	} {
		var talk strings.Builder
		if code := reportError(&talk, rootCommand(), c.err); code != c.code || talk.String() != c.talk {
			t.Errorf("%v: got %d and %q, want %d and %q", c.err, code, talk.String(), c.code, c.talk)
		}
	}
}

// TestNumbersAreReadAlike: no verb uses the integer flags of pflag, which read 010 as 8.
func TestNumbersAreReadAlike(t *testing.T) {
	found := 0
	eachFlag(rootCommand(), func(cmd *cobra.Command, f *pflag.Flag) {
		if !strings.Contains(f.Value.Type(), "int") {
			return
		}
		found++
		if _, ours := f.Value.(*intValue); !ours {
			t.Errorf("%s --%s is read by %T", cmd.CommandPath(), f.Name, f.Value)
		}
	})
	if found < 3 {
		t.Errorf("found %d flags with numbers", found)
	}
}

// eachFlag calls visit for the flags of a command and of all commands below it.
func eachFlag(cmd *cobra.Command, visit func(*cobra.Command, *pflag.Flag)) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { visit(cmd, f) })
	for _, verb := range cmd.Commands() {
		eachFlag(verb, visit)
	}
}
