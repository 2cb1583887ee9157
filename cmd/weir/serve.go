package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/gcra"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/policy"
)

// serveOptions are the flags of weir serve.
type serveOptions struct {
	policies, store string
	outage          outageOptions
	reservations    string // file
	listeners       listeners
	log             logOptions
	traces          traceOptions
	topKeys         string
	envoy           envoyOptions
}

func serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve decisions over HTTP",
		Long: `Serve answers decisions over HTTP until SIGTERM or SIGINT; then it takes no more
requests and answers those that are under way. Without --policies it serves
built-in demonstration policies.

The policy file is read again when its content changes and at SIGHUP. A file with
a fault changes nothing: the log, /readyz and /metrics say what is wrong, and the
policies in force stay. What was granted before counts on.

With --grpc-listen it also answers proxies over Envoy's rate limit service; its
domains are those of --envoy-config, and every policy by its name.

Several weir serve with one --store share every limit. While it cannot be asked,
from the start or later, each answers by what a policy says of when-store-is-down;
with local it grants its share of every limit, Max / --instances.`,
		Example: `  weir serve
  weir serve --policies weir.yaml --listen 127.0.0.1:7070
  weir serve --policies weir.yaml --store redis://127.0.0.1:6379 --instances 4
  weir serve --grpc-listen 127.0.0.1:7071 --envoy-config config/
  curl -d '{"policy":"demo","key":{"user":"ann"}}' http://127.0.0.1:7070/v1/check`,
		Args: wantArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, o) },
	}
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.store)
	o.listeners.addFlags(cmd)
	o.log.addFlags(cmd)
	o.traces.addFlags(cmd)
	cmd.Flags().StringVar(&o.topKeys, "top-keys", "shown",
		"what GET /v1/top and weir top tell operators of the keys denied most: shown, hashed or off; `WORD`")
	cmd.Flags().StringVar(&o.reservations, "reservation-secret-file", "",
		"a `FILE` with the secret by which several weir serve settle each other's reservations; or set $"+reservationVariable+"; default: one of this process's own")
	o.envoy.addFlags(cmd)
	o.outage.addFlags(cmd)
	return cmd
}

func serve(cmd *cobra.Command, o serveOptions) error {
	if err := o.outage.check(o.store); err != nil {
		return err
	}
	log, stderr, err := o.log.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	file, source, src, err := o.readPolicies(stderr)
	if err != nil {
		return err
	}
	config := server.Config{Policies: file, Source: source, Log: log, Version: version()}
	endTraces, err := o.traces.open(&config, log)
	if err != nil {
		return err
	}
	defer endTraces()
	if config.TopKeys, err = server.ParseTopKeys(o.topKeys); err != nil {
		return usage("shown is the default", "--top-keys: %w", err)
	}
	reloadGuards, err := o.listeners.configure(&config, log)
	if err != nil {
		return err
	}
	o.envoy.fromEnvironment(cmd, stderr)
	envoySeen, _ := envoyconf.Fingerprint(o.envoy.config)
	if err := o.envoy.configure(&config); err != nil {
		return err
	}
	if config.ReservationSecret, err = reservationSecret(o.reservations, log); err != nil {
		return err
	}
	if o.listeners.resp != "" {
		config.Throttler = o.outage.throttleTable()
	}
	store, err := awaitStore(o.store, o.outage, log)
	if err != nil {
		return err
	}
	defer store.Close()
	if store.Shared && !cmd.Flags().Changed("instances") {
		noteShares(stderr, file)
	}
	config.Engine, config.StoreName, config.StoreDown = store.engine, store.Name, store.Down
	if store.Conn != nil {
		config.StoreIdentity = func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, o.outage.budget)
			defer cancel()
			return store.Identity(ctx)
		}
		config.Throttler = gcra.NewStore(store.Conn)
	}
	config.EnvoyOptions.Apart = store.Spread
	var reload *reloader
	if o.policies != "" {
		config.Reread = func() error {
			reloadGuards()
			return reload.again()
		}
	}
	s, err := server.New(config)
	if err != nil {
		return usage("", "%w", err)
	}
	for _, warning := range s.Warnings() {
		fmt.Fprintln(stderr, "weir: warning:", warning)
	}
	if config.Envoy != nil {
		for _, warning := range config.Envoy.Warnings {
			fmt.Fprintln(stderr, "weir: warning:", warning)
		}
	}
	defer atHangup(reloadGuards)()
	if err := s.Listen(); err != nil {
		return usage("choose another address with --listen, such as 127.0.0.1:0 for any free port", "%w", err)
	}
	if err := store.look(); err != nil {
		return err
	}
	if o.policies != "" {
		reload = newReloader(o.policies, src, s, log)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop() // not sooner: timeout(1), for one, sends its signal twice, and draining has a bound of its own
	ctx = store.watched(ctx)
	o.log.greet(s, stderr, log)
	close(store.serving)
	var ended []func()
	if reload != nil {
		ended = append(ended, begin(ctx, reload.run))
	}
	if o.envoy.config != "" {
		ended = append(ended, begin(ctx, func(ctx context.Context) { o.envoy.watch(ctx, s, envoySeen, log) }))
	}
	err = s.Serve(ctx)
	stop()
	for _, wait := range ended {
		wait()
	}
	var wrong *failure
	if errors.As(context.Cause(ctx), &wrong) {
		return wrong
	}
	if err != nil {
		return err
	}
	endTraces() // now, so that nothing is said after the last word
	fmt.Fprintln(stderr, "weir: drained, bye")
	return nil
}

// readPolicies reads the policies to serve: those of the file or, where no file is
// named, the built-in ones; beside an Envoy configuration, which is reason enough to
// serve, none.
func (o *serveOptions) readPolicies(stderr io.Writer) (*policy.File, string, []byte, error) {
	if o.policies == "" && o.envoy.config != "" {
		return &policy.File{}, "none", nil, nil
	}
	return readPolicies(o.policies, stderr)
}

// begin calls run in a goroutine of its own. The function it returns waits until
// run has returned.
func begin(ctx context.Context, run func(context.Context)) (ended func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() { <-done }
}
