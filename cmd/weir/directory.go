package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/weirdisk"
)

func storeCommand() *cobra.Command {
	var asJSON, hashKeys bool
	check := &cobra.Command{
		Use:   "check DIR",
		Short: "Read every record and verify its checksum",
		Args:  wantArgs(1, 1, "DIR"),
		RunE:  func(cmd *cobra.Command, args []string) error { return checkDirectory(cmd, args[0], asJSON) },
	}
	check.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	dump := &cobra.Command{
		Use:   "dump DIR",
		Short: "Print the histories and operations as JSON, one a line",
		Args:  wantArgs(1, 1, "DIR"),
		RunE:  func(cmd *cobra.Command, args []string) error { return dumpDirectory(cmd, args[0], hashKeys) },
	}
	dump.Flags().BoolVar(&hashKeys, "hash-keys", false, "print a hash of each value of a key, with a random secret, in place of the value")
	return withVerbs("store check|dump DIR", "Check or dump the directory of --store file:DIR",
		"write weir store check DIR, or weir store dump DIR", check, dump)
}

// directoryPath accepts a path, also in the form of --store.
func directoryPath(arg string) (string, error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(arg, "file:"), "?")
	if path == "" {
		return "", usage("write the DIR of --store file:DIR", "%q names no directory", arg)
	}
	return path, nil
}

// checkedDirectory is the output of weir store check --json.
type checkedDirectory struct {
	Directory  string `json:"directory"`
	OK         bool   `json:"ok"`
	Histories  int    `json:"histories"`
	Operations int    `json:"operations"`
	Files      int    `json:"files"`
	Bytes      int64  `json:"bytes"`
	Torn       string `json:"torn,omitempty"` // the end that the next start cuts
}

func checkDirectory(cmd *cobra.Command, arg string, asJSON bool) error {
	dir, err := directoryPath(arg)
	if err != nil {
		return err
	}
	report, err := weirdisk.Check(dir)
	if err != nil {
		return &failure{code: exitStore, err: unprefixed{err}}
	}
	c := checkedDirectory{dir, true, report.Histories, report.Operations, report.Segments, report.Bytes, ""}
	if cut := report.Cut; cut.Bytes > 0 {
		c.Torn = cut.String()
	}
	out := printable{cmd.OutOrStdout()}
	if asJSON {
		return printJSON(out, c)
	}
	fmt.Fprintf(out, "%s: ok, %s and %s in %s of %s\n", dir, counted(int64(c.Histories), "history", "histories"),
		counted(int64(c.Operations), "operation", "operations"), counted(int64(c.Files), "file", "files"), counted(c.Bytes, "byte", "bytes"))
	if c.Torn != "" {
		fmt.Fprintf(out, "  the next start cuts it: %s\n", c.Torn)
	}
	return nil
}

// dumpedLine is a line of weir store dump. Instants are microseconds since 1970.
type dumpedLine struct {
	Policy    string            `json:"policy"`
	Limit     string            `json:"limit,omitempty"`
	Kind      string            `json:"kind,omitempty"` // missing for an operation
	Key       map[string]string `json:"key"`
	Newest    int64             `json:"newest_us,omitempty"`
	Entries   []dumpedEntry     `json:"entries,omitempty"`
	Bucket    *dumpedBucket     `json:"bucket,omitempty"`
	Operation *dumpedOperation  `json:"operation,omitempty"`
}

type dumpedEntry struct {
	At    int64 `json:"at_us"`
	Units int64 `json:"units"`
}

type dumpedBucket struct {
	Max    int64 `json:"max"` // per window
	Window int64 `json:"window_us"`
	Full   int64 `json:"full_us"`
}

type dumpedOperation struct {
	ID      string `json:"id"`
	Op      string `json:"op"`
	Units   int64  `json:"units"`
	At      int64  `json:"at_us"`
	Until   int64  `json:"until_us"`
	Granted int64  `json:"granted"`
}

func dumpDirectory(cmd *cobra.Command, arg string, hashKeys bool) error {
	dir, err := directoryPath(arg)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	text := func(v string) string { return v }
	if hashKeys {
		text = topkeys.Hash
	}
	err = weirdisk.Dump(dir, func(item *weirdisk.Item) error {
		line, err := dumped(item, text)
		if err != nil {
			return err
		}
		return printJSON(out, line)
	})
	if err != nil {
		out.Flush()
		return &failure{code: exitStore, err: unprefixed{err}}
	}
	return out.Flush()
}

// dumped returns the line of an item. text changes the values of keys.
func dumped(item *weirdisk.Item, text func(string) string) (line dumpedLine, err error) {
	var dimensions, values []string
	var ok bool
	if item.Operation == nil {
		var kind weir.Kind
		if line.Policy, line.Limit, kind, dimensions, values, ok = item.Split(); !ok {
			return line, fmt.Errorf("the history of %q has a key that does not fit its name", item.Name)
		}
		line.Kind = answer.KindWords[kind]
		line.Newest = item.At
		for _, e := range item.Entries {
			line.Entries = append(line.Entries, dumpedEntry{e.End, e.Units})
		}
		if item.Max > 0 {
			line.Bucket = &dumpedBucket{item.Max, item.Window, item.Full}
		}
	} else {
		o, id := item.Operation, ""
		if line.Policy, dimensions, values, id, ok = o.Split(); !ok {
			return line, fmt.Errorf("an operation has the name %q, which weir does not make", o.Name)
		}
		line.Operation = &dumpedOperation{text(id), operationWords[o.Op], o.Asked, o.Result.At.UnixMicro(), o.Until, o.Result.Granted}
	}
	line.Key = map[string]string{}
	for i, d := range dimensions {
		line.Key[d] = text(values[i])
	}
	return line, nil
}

// operationWords are the operations with an idempotency key.
var operationWords = [...]string{weir.OpAttempt: "attempt", weir.OpRecord: "record", weir.OpRefund: "refund"}
