package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/cmd/weir/internal/otlp"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
	"github.com/weirlimit/weir/cmd/weir/internal/systemd"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/policy"
)

// serveOptions are the settings of weir serve.
type serveOptions struct {
	config              server.Config // the settings of package server
	policies, storeName string

	instances    int
	storeTimeout time.Duration
	maxMemory    int64

	hosts []string
	tls   listen.TLSFiles

	logFormat    string
	logLevel     slog.Level
	otlpEndpoint string
	otlpRatio    float64
	record       recorder.Config // openRecorder sets its Secret and its Log

	envoyConfig, envoyHeaders string
	envoyOptions              envoyconf.Options
}

// check rejects settings that do not fit together. It reads no files and no secrets. The error
// joins those of all settings, each a *failure or a *policy.Error.
func (o *serveOptions) check(table settings) error {
	return errors.Join(slices.Concat(
		o.checkStore(table), table.checkListeners(), table.checkTLS(), table.checkRecording(), table.checkEnvoy(),
	)...)
}

// checkListeners rejects an address that two listeners share. Port 0 may be shared, because the
// system then chooses a free port for each.
func (t settings) checkListeners() (all []error) {
	first := map[string]*setting{}
	for _, name := range []string{"listen", "admin-listen", "grpc-listen", "resp-listen"} {
		s := t.setting(name)
		address := s.value.String()
		other := first[address]
		switch {
		case address == "" || strings.HasSuffix(address, ":0"):
		case other == nil:
			first[address] = s
		default:
			all = append(all, s.failure("give each listener an address of its own",
				"%s is the address of --%s as well", address, other.name))
		}
	}
	return all
}

// checkTLS rejects a setting of TLS without another one that it needs.
func (t settings) checkTLS() (all []error) {
	cert := t.setting("tls-cert")
	key := t.setting("tls-key")
	ca := t.setting("tls-client-ca")
	for _, c := range []struct{ is, needs *setting }{{cert, key}, {ca, cert}, {key, cert}} {
		if c.is.source != "" && c.needs.source == "" {
			next := "add --" + c.needs.name + " FILE"
			all = append(all, c.is.failure(next, "needs --%s", c.needs.name))
		}
	}
	return all
}

// serve checks the settings, opens the log, and runs a server until SIGTERM or SIGINT.
func serve(cmd *cobra.Command, o *serveOptions, table settings) error {
	if err := o.check(table); err != nil {
		return err
	}
	log, stderr := o.openLog(cmd.ErrOrStderr())
	if err := o.serve(table, log, stderr); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "weir: drained, bye")
	return nil
}

// serve reads the files of the settings, starts to connect to the store, and runs a server until
// SIGTERM or SIGINT.
func (o *serveOptions) serve(table settings, log *slog.Logger, stderr io.Writer) (err error) {
	file, text, err := o.loadPolicies(stderr)
	if err != nil {
		return err
	}
	config := &o.config
	config.Policies = file
	config.Log = log
	config.Version = version()
	stopTraces, err := o.startTraces(table, log)
	if err != nil {
		return err
	}
	defer stopTraces()
	envoySeen, _ := envoyconf.Fingerprint(o.envoyConfig)
	secrets, err := o.configure(table, log)
	if err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1) // keeps a SIGHUP until the server runs
	signal.Notify(hangups, syscall.SIGHUP)
	defer close(hangups)
	defer signal.Stop(hangups)
	store, err := o.connectStore(log)
	if err != nil {
		return err
	}
	defer closeStore(store, &err)
	if store.Shared && table.setting("instances").source == "" {
		printInstancesNote(stderr, file)
	}
	if config.Recorder, err = openRecorder(&o.record, table, log); err != nil {
		return err
	}
	if config.Recorder != nil {
		defer config.Recorder.Close()
	}
	if config.Sockets, err = systemd.Sockets(); err != nil {
		return usage("", "%w", err)
	}
	var policies *filewatch.Watcher // set below, once the server that it reloads exists
	if o.policies != "" {
		config.Reread = func() error {
			secrets.Again()
			return policies.Again()
		}
	}
	s, err := server.New(*config)
	if err != nil {
		return usage("", "%w", err)
	}
	reloaders := []*filewatch.Watcher{secrets}
	if o.policies != "" {
		policies = newReloader(o.policies, text, enforce.ReadFile, policy.Parse, s.Reload)
		reloaders = append(reloaders, policies)
	}
	if o.envoyConfig != "" {
		load := func(path string, _ []byte) (*envoyconf.Config, error) {
			return envoyconf.Load(path, o.envoyOptions)
		}
		reloaders = append(reloaders,
			newReloader(o.envoyConfig, envoySeen, envoyconf.Fingerprint, load, s.ReloadEnvoy))
	}
	printRecordingNote(stderr, &o.record)
	warnings := append(s.Warnings(), store.Warnings...)
	if config.Envoy != nil {
		warnings = append(warnings, config.Envoy.Warnings...)
	}
	for _, warning := range warnings {
		fmt.Fprintln(stderr, "weir: warning:", warning)
	}
	return runServer(s, store, reloaders, hangups, func() { o.printStart(s, stderr) })
}

// runServer opens the listeners, checks the store, calls printStart, and serves until SIGTERM
// or SIGINT.
func runServer(
	s *server.Server, store *servedStore, reloaders []*filewatch.Watcher,
	hangups <-chan os.Signal, printStart func(),
) error {
	log := store.log
	if err := s.Listen(); err != nil {
		return usage("choose another address, such as --listen 127.0.0.1:0 for any free port",
			"%w", err)
	}
	go reloadOnHangup(hangups, reloaders, log)
	// Signals stay caught until the process ends, because timeout(1) sends its signal twice. The
	// second one must not cut off draining, which has a time limit, or the closing of the store.
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, func() { systemd.Notify(systemd.Stopping, log) })
	ctx = store.awaitFirstAttempt(ctx)
	if unusable, ok := errors.AsType[*failure](context.Cause(ctx)); ok {
		return unusable
	}
	printStart()
	systemd.Notify(systemd.Ready, log)
	close(store.serving)
	for _, r := range reloaders {
		go r.Watch(ctx) // weir ends without waiting for it, because a read may hang
	}
	err := s.Serve(ctx)
	if unusable, ok := errors.AsType[*failure](context.Cause(ctx)); ok {
		return unusable
	}
	return err
}

// configure reads the secrets, the certificates and the configuration of Envoy. It returns the
// watcher that reloads the secrets and certificates.
func (o *serveOptions) configure(
	table settings, log *slog.Logger,
) (secrets *filewatch.Watcher, err error) {
	c := &o.config
	c.Hosts, _ = listen.ParseNames(o.hosts...) // namesValue has checked each
	if secrets, err = o.loadCredentials(table, log); err != nil {
		return nil, err
	}
	return secrets, o.configureEnvoy()
}

// configureEnvoy sets the header fields and the rules of Envoy's rate limit service.
func (o *serveOptions) configureEnvoy() (err error) {
	c := &o.config
	c.EnvoyOptions.Response = o.envoyHeaders == "response" || o.envoyHeaders == "both"
	c.EnvoyOptions.Request = o.envoyHeaders == "request" || o.envoyHeaders == "both"
	if o.envoyConfig != "" {
		c.Envoy, err = envoyconf.Load(o.envoyConfig, o.envoyOptions)
	}
	return err
}

// loadPolicies reads the policies to serve. If there is an Envoy configuration and no policy
// file, it returns a file without policies.
func (o *serveOptions) loadPolicies(stderr io.Writer) (file *policy.File, text []byte, err error) {
	if o.policies == "" && o.envoyConfig != "" {
		return &policy.File{Name: "none"}, nil, nil
	}
	return loadPolicies(o.policies, stderr)
}

// openLog returns the log, and a writer for messages at the start and the end. The writer is
// stderr, or the log itself if its format is JSON.
func (o *serveOptions) openLog(stderr io.Writer) (log *slog.Logger, messages io.Writer) {
	options := &slog.HandlerOptions{Level: o.logLevel, ReplaceAttr: leaveOutKeys}
	if o.logFormat == "json" {
		log = slog.New(slog.NewJSONHandler(stderr, options))
		return log, logWriter{log}
	}
	return slog.New(slog.NewTextHandler(stderr, options)), stderr
}

// leaveOutKeys replaces an error, which may contain the key of a caller, by a text without
// keys.
func leaveOutKeys(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(answer.Logged(err))
	}
	return a
}

// logWriter writes messages to a log. Each call of Write has one message.
type logWriter struct{ log *slog.Logger }

// Write logs a message, with the level that its prefix gives.
func (w logWriter) Write(p []byte) (int, error) {
	message := strings.TrimPrefix(strings.TrimSuffix(string(p), "\n"), "weir: ")
	if warning, ok := strings.CutPrefix(message, "warning: "); ok {
		w.log.Warn(warning)
	} else {
		w.log.Info(strings.TrimPrefix(message, "note: "))
	}
	return len(p), nil
}

// printStart prints a banner with an example command. If the format of the log is JSON, it logs
// the facts of the banner instead.
func (o *serveOptions) printStart(s *server.Server, messages io.Writer) {
	if o.logFormat == "json" {
		o.config.Log.Info("weir serves", s.Facts()...)
		return
	}
	s.Banner(messages)
	if command := o.exampleCommand(s.Addr()); command != "" {
		fmt.Fprintf(messages, "  try\n    %s\n", command)
	}
}

// exampleCommand returns a shell command that makes a decision of the first policy. It returns
// "" if there is no policy, or if callers need a secret, TLS or a unix socket.
func (o *serveOptions) exampleCommand(address string) string {
	c := &o.config
	needsSecret := c.Auth.Gate != nil || c.Auth.Token != nil
	needsMore := needsSecret || c.TLS != nil || strings.HasPrefix(address, "unix:")
	if needsMore || len(c.Policies.Policies) == 0 {
		return ""
	}
	p := c.Policies.Policies[0]
	compiled, _ := p.Compile() // the check of the file has compiled it
	key := map[string]string{}
	for _, dimension := range compiled.Dimensions {
		key[dimension] = "ann"
		if dimension == "ip" {
			key[dimension] = "192.0.2.7"
		}
	}
	body, _ := json.Marshal(map[string]any{"policy": p.Name, "key": key})
	return fmt.Sprintf("curl -d '%s' http://%s/v1/check", body, address)
}

// flushTimeout bounds the time to send the last spans.
const flushTimeout = 2 * time.Second

// startTraces sets the tracer if a flag, the file or the environment names a collector. stop
// sends the last spans.
func (o *serveOptions) startTraces(table settings, log *slog.Logger) (stop func(), err error) {
	if table.setting("otlp-endpoint").source == "" {
		return func() {}, nil
	}
	ratio := o.otlpRatio
	if table.setting("otlp-ratio").isVariable() {
		ratio = -1 // package otlp then reads the variables of the sampler
	}
	t, err := otlp.New(otlp.Config{
		Endpoint: o.otlpEndpoint,
		Version:  o.config.Version,
		Ratio:    ratio,
		Log:      log,
	})
	if err != nil {
		return nil, usage("", "traces: %w", err)
	}
	o.config.Tracer = t
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			log.Warn("the last spans are lost", "error", err)
		}
	}, nil
}

// logPeriod is the least time between two log lines about a recording that cannot be written.
const logPeriod = 10 * time.Second

// checkRecording rejects settings of a recording without --record, because they have no effect.
func (t settings) checkRecording() (all []error) {
	if t.setting("record").source != "" {
		return nil
	}
	standard := new(serveOptions).bindSettings()
	for _, s := range t.inSection("recording") {
		// A file may repeat a default, because weir config print writes such files. A variable
		// may be meant for other programs.
		isStandard := s.value.String() == standard.setting(s.name).value.String()
		if s.source != "" && !s.isVariable() && !isStandard {
			all = append(all, s.failure("add --record FILE", "needs --record"))
		}
	}
	return all
}

// checkEnvoy rejects --envoy-merge-domains without --envoy-config.
func (t settings) checkEnvoy() []error {
	merge := t.setting(mergeDomains)
	if merge.value.String() == "true" && t.setting("envoy-config").value.String() == "" {
		return []error{merge.failure("add --envoy-config PATH", "needs --envoy-config")}
	}
	return nil
}

// openRecorder opens the recording of --record. It returns nil without that setting.
func openRecorder(
	c *recorder.Config, table settings, log *slog.Logger,
) (*recorder.Recorder, error) {
	if c.Path == "" {
		return nil, nil
	}
	secret, err := table.setting("record-secret-file").readSharedSecret(log)
	if err != nil {
		return nil, err
	}
	c.Secret = secret
	c.Log = &observe.Log{To: log, Max: 1, Period: logPeriod}
	r, err := recorder.Open(*c)
	if err != nil {
		return nil, usage("weir must be able to create and rename files in its directory",
			"--record: %w", err)
	}
	return r, nil
}

// printRecordingNote prints which keys are recorded and the largest size of the recording. It
// prints a warning if the keys are readable.
func printRecordingNote(stderr io.Writer, c *recorder.Config) {
	if c.Path == "" {
		return
	}
	keys := "all keys"
	if c.Sample > 1 {
		keys = shareText(c.Sample) + " of keys"
	}
	fmt.Fprintf(stderr, "weir: note: records the calls of %s to %s, at most %s in %s\n",
		keys, c.Path, sizeText(c.FileBytes*int64(c.Files)), counted(c.Files, "file", "files"))
	if c.Plain {
		fmt.Fprintf(stderr, "weir: warning: --record-plain-keys writes the keys of callers readably to %s; "+
			"it is as confidential as they are\n", c.Path)
	}
}
