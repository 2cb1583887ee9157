// Weir is the command: it checks policy files, asks for single decisions,
// replays traces, and serves decisions to other programs.
//
// stdout is data, stderr is talk; every verb that prints data has --json. The
// exit code is 0 for allowed and for success, 1 for denied, 2 for a wrong
// command line, policy or input, 3 for a store that could not be asked. Nothing
// is ever coloured.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
