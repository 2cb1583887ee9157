package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

//go:embed first.yaml
var firstFile []byte

func initCommand() *cobra.Command {
	return newCommand("init [FILE]", "Write a first policy file, with tests",
		wantArgs(0, 1, "FILE"), writeFirstFile)
}

// writeFirstFile writes the first policy file, and prints the commands to run next.
func writeFirstFile(cmd *cobra.Command, args []string) error {
	path := "weir.yaml"
	if len(args) > 0 {
		path = args[0]
	}
	if path == "" || path == "-" {
		return usage("name a file, such as weir.yaml", "%q is no name of a file", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return usage("name another file: weir init FILE",
			"%s is there already, and stays as it is", path)
	case err != nil:
		return usage("is the directory there, and may you write to it?", "%w", err)
	}
	_, err = f.Write(firstFile)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path) // an incomplete file would make the next weir init fail
		return usage("free some space, or name another file", "%w", err)
	}
	_, err = fmt.Fprintf(printable{cmd.OutOrStdout()},
		"wrote %s\nnext:\n  weir test %[1]s\n  weir serve --policies %[1]s\n", path)
	return err
}
