package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirdisk"
)

// storeFlag adds --store.
func storeFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "store", "memory", settingHelp()["store"])
}

// openStore opens a store. It fails if the store cannot be reached.
func openStore(name string) (*store.Store, error) {
	s, err := store.Open(name, store.Options{})
	return s, storeFailure(err)
}

// closeStore closes a store at the end of a command. It sets result to the error of closing,
// unless result has an error already.
func closeStore(s io.Closer, result *error) {
	if err := storeFailure(s.Close()); *result == nil {
		*result = err
	}
}

// storeFailure returns an error of a store with its exit code, or nil for nil.
func storeFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrURL):
		return usage("weir serve -h shows the values of --store", "%w", err)
	}
	return &failure{code: exitStore, err: err}
}

// startTimeout bounds the time that serve waits for the first answer of the store before it
// prints the banner. The listeners are open meanwhile.
const startTimeout = 500 * time.Millisecond

// servedStore is the store of weir serve. It may be unreachable, at the start or later.
type servedStore struct {
	*store.Store
	log     *slog.Logger
	serving chan struct{} // closed when the banner is printed; nothing is logged before
	closed  chan struct{} // closed by Close

	fallback *fallback.Engine // nil for memory
}

// connectStore starts to connect to the store in the background. It sets the fields of the
// configuration that belong to the store.
func (o *serveOptions) connectStore(log *slog.Logger) (*servedStore, error) {
	s := &servedStore{log: log, serving: make(chan struct{}), closed: make(chan struct{})}
	progress := func(done, total int64) {
		log.Info("reading the store", "bytes", done, "of", total)
	}
	options := store.Options{MaxBytes: o.maxMemory, Progress: progress}
	opened, err := store.OpenInBackground(o.storeName, options, s.logAttempt)
	if err != nil {
		return nil, storeFailure(err)
	}
	s.Store = opened
	c := &o.config
	c.Engine = s.Engine
	c.Memory = s.Memory
	c.Disk = s.Disk
	c.StoreName = s.Name
	c.StoreDown = s.Err
	if s.Memory != nil {
		c.StoreNote = "forgets every limit when it ends; --store file:/var/lib/weir keeps them on disk"
		return s, nil
	}
	// A policy's when-store-is-down replaces the mode.
	s.fallback = fallback.New(s.Engine, fallback.Deny, fallback.Timeout(o.storeTimeout),
		fallback.Instances(o.instances), fallback.ErrorLog(log))
	c.Fallback = s.fallback
	c.Engine = s.fallback
	return s, nil
}

// awaitFirstAttempt waits up to startTimeout for the first attempt to connect. It returns a
// context that is cancelled if this attempt reaches the store but cannot use it. The cause is
// then a failure with the reason. An unreachable store does not cancel it, because serve
// continues to connect.
func (s *servedStore) awaitFirstAttempt(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		if err := s.Ready(ctx); err != nil && !errors.Is(err, store.ErrUnreachable) {
			cancel(storeFailure(err))
		}
	}()
	select {
	case <-tried:
	case <-time.After(startTimeout):
	}
	return ctx
}

// logAttempt logs the result of an attempt to connect, once the banner is printed.
func (s *servedStore) logAttempt(err error, warnings []string) {
	select {
	case <-s.serving:
	case <-s.closed:
		return
	}
	if err != nil {
		s.log.Error("the store is unavailable; "+
			"decisions follow when-store-is-down, and weir goes on connecting", "why", err)
		return
	}
	s.log.Info("the store is connected")
	for _, warning := range warnings {
		s.log.Warn(warning)
	}
}

// Close stops probing and connecting, and closes the store.
func (s *servedStore) Close() error {
	close(s.closed)
	if s.fallback != nil {
		s.fallback.Close()
	}
	return s.Store.Close()
}

// checkStore rejects settings that do not fit the kind of the store.
func (o *serveOptions) checkStore(table settings) (all []error) {
	directory := strings.HasPrefix(o.storeName, "file:")
	switch {
	case o.instances > 1 && directory:
		s := table.setting("instances")
		all = append(all, s.failure("leave it out, or share a store: --store redis://host:port",
			"must be 1, not %d: a directory is of one weir serve", o.instances))
	case o.maxMemory > 0 && o.storeName != "memory" && !directory:
		s := table.setting("max-memory")
		all = append(all, s.failure("Redis has maxmemory for that; leave out one of them",
			"is for --store memory and file:, not for a shared store"))
	}
	return all
}

// printInstancesNote prints a note about policies that divide their limits among servers in an
// outage. It is for a server without --instances.
func printInstancesNote(stderr io.Writer, file *policy.File) {
	var shared []string
	for _, p := range file.Policies {
		if p.WhenStoreIsDown == fallback.Share {
			shared = append(shared, p.Name)
		}
	}
	if len(shared) > 0 {
		fmt.Fprintf(stderr, "weir: note: in an outage of the store this server grants the whole limit of %s "+
			"(when-store-is-down: share); with --instances N it grants Max/N\n", listed(shared))
	}
}

func storeCommand() *cobra.Command {
	check := newCommand("check DIR", "Read every record and verify its checksum",
		wantArgs(1, 1, "DIR"), checkDirectory)
	withJSON(check, "print the result as one JSON object")
	var hashKeys bool
	dump := newCommand("dump DIR", "Print the histories and operations as JSON, one a line",
		wantArgs(1, 1, "DIR"),
		func(cmd *cobra.Command, args []string) error { return dumpDirectory(cmd, args[0], hashKeys) })
	dump.Flags().BoolVar(&hashKeys, "hash-keys", false,
		"print hashes, with a random secret, in place of the values of keys and of idempotency keys")
	return newParentCommand("store check|dump DIR",
		"Check or dump the directory of --store file:DIR", check, dump)
}

// directoryPath returns the directory that an argument names: a path, or file:DIR as in
// --store.
func directoryPath(arg string) (path string, err error) {
	if arg == "memory" || strings.Contains(arg, "://") {
		return "", usage("write the DIR of --store file:DIR",
			"%q is no directory: only --store file:DIR has one", redact.URL(arg))
	}
	if path = arg; strings.HasPrefix(arg, "file:") {
		name, err := store.Describe(arg)
		if err != nil {
			return "", storeFailure(err)
		}
		path = name[len("file:"):strings.LastIndex(name, "?sync=")]
	}
	if path == "" {
		return "", usage("write the DIR of --store file:DIR", "%q names no directory", arg)
	}
	return path, nil
}

// directoryFailure returns the failure of a store directory that cannot be read.
func directoryFailure(dir string, err error) error {
	f := &failure{code: exitStore, err: unprefixed{err}}
	if child := storeWithin(dir); child != "" {
		f.next = "did you mean " + child + "?"
	}
	if errors.Is(err, fs.ErrNotExist) {
		f.next = "write the DIR of weir serve --store file:DIR, which makes it at its first start"
	}
	return f
}

// storeWithin returns the first subdirectory of dir that is a store. It returns "" if there is
// none, or if dir is a store itself.
func storeWithin(dir string) string {
	isStore := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "MANIFEST"))
		return err == nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil || isStore(dir) {
		return ""
	}
	for _, e := range entries {
		if child := filepath.Join(dir, e.Name()); e.IsDir() && isStore(child) {
			return child
		}
	}
	return ""
}

// checkedDirectory is the output of weir store check --json.
type checkedDirectory struct {
	Directory  string `json:"directory"`
	OK         bool   `json:"ok"`
	Histories  int    `json:"histories"`
	Blocks     int    `json:"blocks,omitempty"`
	Operations int    `json:"operations"`
	Documents  int    `json:"documents,omitempty"`
	Files      int    `json:"files"`
	Bytes      int64  `json:"bytes"`
	End        string `json:"end"`            // the instant of the last change, UTC
	Torn       string `json:"torn,omitempty"` // incomplete ends; the next start cuts them
}

func checkDirectory(cmd *cobra.Command, args []string) error {
	dir, err := directoryPath(args[0])
	if err != nil {
		return err
	}
	report, err := weirdisk.Check(dir)
	if err != nil {
		return directoryFailure(dir, err)
	}
	c := checkedDirectory{
		Directory:  dir,
		OK:         true,
		Histories:  report.Histories,
		Blocks:     report.Blocks,
		Operations: report.Operations,
		Documents:  report.Documents,
		Files:      report.Segments,
		Bytes:      report.Bytes,
		End:        report.End.Format(time.RFC3339Nano),
	}
	if cut := report.Cut; cut.Bytes > 0 {
		c.Torn = cut.String()
	}
	return printResult(cmd, cmd.OutOrStdout(), c, func(b *strings.Builder) {
		fmt.Fprintf(b, "%s: ok, %s and %s in %s of %s\n", dir,
			counted(c.Histories, "history", "histories"),
			counted(c.Operations, "operation", "operations"),
			counted(c.Files, "file", "files"),
			counted(c.Bytes, "byte", "bytes"))
		if c.Blocks > 0 {
			fmt.Fprintf(b, "  %s\n", counted(c.Blocks, "block", "blocks"))
		}
		if c.Documents > 0 {
			fmt.Fprintf(b, "  %s of operators, such as overrides\n",
				counted(c.Documents, "document", "documents"))
		}
		fmt.Fprintf(b, "  the last change is of %s\n",
			report.End.Local().Format("2006-01-02 15:04:05.000 MST"))
		if c.Torn != "" {
			fmt.Fprintf(b, "  the next start cuts it: %s\n", c.Torn)
		}
	})
}

// dumpedLine is a line of weir store dump: a history or an operation. Instants are microseconds
// since 1970.
type dumpedLine struct {
	Policy    string            `json:"policy"`
	Limit     string            `json:"limit,omitempty"`
	Kind      string            `json:"kind,omitempty"` // missing for an operation
	Key       map[string]string `json:"key"`
	KeyBytes  map[string][]byte `json:"key_base64,omitempty"` // values that are not UTF-8
	Newest    int64             `json:"newest_us,omitempty"`
	Blocked   int64             `json:"blocked_until_us,omitempty"` // the block began at Newest
	Entries   []dumpedEntry     `json:"entries,omitempty"`
	Ahead     []dumpedEntry     `json:"ahead,omitempty"` // appointments, which begin later
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
	ID      string `json:"id,omitempty"`
	IDBytes []byte `json:"id_base64,omitempty"` // in place of an ID that is not UTF-8
	Op      string `json:"op"`
	Units   int64  `json:"units"`
	At      int64  `json:"at_us"`
	Until   int64  `json:"until_us"`
	Granted int64  `json:"granted"`
	Start   int64  `json:"start_us,omitempty"` // instant of an appointment

	Reservation *dumpedReservation `json:"reservation,omitempty"`
}

type dumpedReservation struct {
	Units     int64  `json:"units"` // extensions included
	ExpiresAt int64  `json:"expires_at_us"`
	Settled   *int64 `json:"settled,omitempty"` // units that were used; missing while it is open
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
		return printJSON(out, newDumpedLine(item, text))
	})
	if err != nil {
		out.Flush()
		return directoryFailure(dir, err)
	}
	return out.Flush()
}

// newDumpedLine returns the line of an item. text is applied to the values of keys and to
// idempotency keys, for example to hash them.
func newDumpedLine(item *weirdisk.Item, text func(string) string) (line dumpedLine) {
	line.Policy = item.Policy
	line.Limit = item.Limit
	if item.ID == "" {
		line.Kind = answer.KindWords[item.Kind]
		line.Newest = item.Newest
		line.Blocked = item.BlockedUntil
		for _, e := range item.Entries {
			line.Entries = append(line.Entries, dumpedEntry{e.At, e.Units})
		}
		for _, e := range item.Ahead {
			line.Ahead = append(line.Ahead, dumpedEntry{e.At, e.Units})
		}
		if item.Max > 0 {
			line.Bucket = &dumpedBucket{Max: item.Max, Window: item.Window, Full: item.Full}
		}
	} else {
		id, idBytes := textOrBytes(text(item.ID))
		line.Operation = &dumpedOperation{
			ID:      id,
			IDBytes: idBytes,
			Op:      operationWords[item.Op],
			Units:   item.Units,
			At:      item.At,
			Until:   item.Until,
			Granted: item.Granted,
			Start:   item.Start,
		}
		if item.Reserved > 0 {
			r := &dumpedReservation{Units: item.Reserved, ExpiresAt: item.ExpiresAt}
			if item.Settled {
				r.Settled = &item.Actual
			}
			line.Operation.Reservation = r
		}
	}
	line.Key = map[string]string{}
	line.KeyBytes = map[string][]byte{}
	for i, d := range item.Dimensions {
		if v, b := textOrBytes(text(item.Values[i])); b == nil {
			line.Key[d] = v
		} else {
			line.KeyBytes[d] = b
		}
	}
	return line
}

// textOrBytes returns v as text if it is UTF-8, and otherwise as bytes, because JSON would
// replace some of them.
func textOrBytes(v string) (text string, b []byte) {
	if utf8.ValidString(v) {
		return v, nil
	}
	return "", []byte(v)
}

// operationWords are the words for the operations that take an idempotency key.
var operationWords = [...]string{
	engine.Attempt: "attempt",
	engine.Record:  "record",
	engine.Refund:  "refund",
}
