package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/policy"
)

// serveOptions are the flags of weir serve.
type serveOptions struct {
	config              server.Config // partly set by flags
	policies, storeName string
	store               storeOptions
	reservations        string // file
	listeners           listenerOptions
	observe             observeOptions
	record              recordOptions
	envoy               envoyOptions
}

func serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve decisions over HTTP",
		Args:  wantArgs(0, 0, ""),
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd, &o) },
	}
	policiesFlag(cmd, &o.policies)
	storeFlag(cmd, &o.storeName)
	o.store.addFlags(cmd)
	group(cmd, "Policies and store:")
	o.listeners.addFlags(cmd, &o.config)
	o.observe.addFlags(cmd)
	o.record.addFlags(cmd)
	cmd.Flags().StringVar(&o.reservations, "reservation-secret-file", "",
		"a `FILE` with the secret with which several weir serve settle each other's reservations; or set $"+reservationVariable+"; default: a random secret of this process")
	group(cmd, "Reservations:")
	o.envoy.addFlags(cmd)
	return cmd
}

// serve checks the flags, begins to connect to the store, and runs a server until a
// signal.
func serve(cmd *cobra.Command, o *serveOptions) error {
	if err := o.store.check(o.storeName); err != nil {
		return err
	}
	log, stderr, err := o.observe.openLog(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	source, err := o.loadPolicies(stderr)
	if err != nil {
		return err
	}
	config := &o.config
	config.Policies, config.Log, config.Version = source.file, log, version()
	stopTraces, err := o.observe.startTraces(config, log)
	if err != nil {
		return err
	}
	defer stopTraces()
	o.envoy.readEnvironment(cmd, stderr)
	envoySeen, _ := envoyconf.Fingerprint(o.envoy.config)
	reloadSecrets, err := o.configure(config, log)
	if err != nil {
		return err
	}
	defer onHangup(reloadSecrets)()
	store, err := o.connectStore(config, log)
	if err != nil {
		return err
	}
	defer store.Close()
	if store.Shared && !cmd.Flags().Changed("instances") {
		noteInstances(stderr, source.file)
	}
	if config.Recorder, err = o.record.open(cmd, log); err != nil {
		return err
	}
	if config.Recorder != nil {
		defer config.Recorder.Close()
	}
	var policies *reloader
	if o.policies != "" {
		config.Reread = func() error {
			reloadSecrets()
			return policies.again()
		}
	}
	s, err := server.New(*config)
	if err != nil {
		return usage("", "%w", err)
	}
	var reloaders []*reloader
	if o.policies != "" {
		policies = newReloader(o.policies, source.text, s, log)
		reloaders = append(reloaders, policies)
	}
	if o.envoy.config != "" {
		reloaders = append(reloaders, o.envoy.newReloader(s, envoySeen, log))
	}
	o.record.greet(stderr)
	warnings := append(s.Warnings(), store.Warnings...)
	if config.Envoy != nil {
		warnings = append(warnings, config.Envoy.Warnings...)
	}
	for _, warning := range warnings {
		fmt.Fprintln(stderr, "weir: warning:", warning)
	}
	greet := func() { o.observe.greet(s, o.curl(s.Addr(), config), stderr, log) }
	if err := runServer(s, store, reloaders, greet); err != nil {
		return err
	}
	stopTraces() // before the last message
	if config.Recorder != nil {
		config.Recorder.Close()
	}
	if err := store.Close(); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "weir: drained, bye")
	return nil
}

// runServer opens the listeners, checks the store, calls greet, and serves until a
// signal.
func runServer(s *server.Server, store *servedStore, reloaders []*reloader, greet func()) error {
	if err := s.Listen(); err != nil {
		return usage("choose another address, such as --listen 127.0.0.1:0 for any free port", "%w", err)
	}
	if err := store.checkAtStart(); err != nil {
		return err
	}
	stopReloads := onHangup(func() {
		for _, r := range reloaders {
			r.again()
		}
	})
	defer stopReloads()
	// Signals stay caught until the process ends. timeout(1) sends its signal twice, draining has
	// a bound of its own, and the store is closed after it.
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ctx = store.watch(ctx)
	greet()
	close(store.serving)
	var watching sync.WaitGroup
	for _, r := range reloaders {
		watching.Go(func() { r.run(ctx) })
	}
	err := s.Serve(ctx)
	stop()
	watching.Wait()
	if unusable := new(failure); errors.As(context.Cause(ctx), &unusable) {
		return unusable
	}
	return err
}

// configure checks the flags of the listeners, Envoy and reservations, and sets the
// fields of c. reload reads the secrets again.
func (o *serveOptions) configure(c *server.Config, log *slog.Logger) (reload func(), err error) {
	if c.TopKeys, err = topkeys.ParseForm(o.observe.topKeys); err != nil {
		return nil, usage("shown is the default", "--top-keys: %w", err)
	}
	if reload, err = o.listeners.configure(c, log); err != nil {
		return nil, err
	}
	if err = o.envoy.configure(c); err != nil {
		return nil, err
	}
	c.ReservationSecret, err = sharedSecret("--reservation-secret-file", o.reservations, reservationVariable, log)
	return reload, err
}

// connectStore begins to connect to the store, and sets the fields of c for it.
func (o *serveOptions) connectStore(c *server.Config, log *slog.Logger) (*servedStore, error) {
	store, err := connectStore(o.storeName, o.store, log)
	if err != nil {
		return nil, err
	}
	c.Engine, c.Memory, c.Disk, c.Fallback = store.engine, store.Memory, store.Disk, store.outage
	c.StoreName, c.StoreDown = store.Name, store.Err
	if store.Memory != nil {
		c.StoreNote = "forgets every limit when it ends; --store file:/var/lib/weir keeps them on disk"
	} else {
		c.StoreIdentity = func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, o.store.timeout)
			defer cancel()
			return store.Identity(ctx)
		}
	}
	return store, nil
}

// curl returns a shell command that makes a decision of the first policy, or "" if
// there is no policy or if only gates are open.
func (o *serveOptions) curl(address string, c *server.Config) string {
	if len(c.Policies.Policies) == 0 || c.Auth.Gate != nil && c.Auth.Token == nil {
		return ""
	}
	p := c.Policies.Policies[0]
	compiled, err := p.Compile()
	if err != nil {
		return ""
	}
	key := map[string]string{}
	for _, dimension := range compiled.Dimensions {
		if key[dimension] = "ann"; dimension == "ip" {
			key[dimension] = "192.0.2.7"
		}
	}
	body, _ := json.Marshal(map[string]any{"policy": p.Name, "key": key})
	args, url := []string{"curl"}, "http://"+address
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		args, url = append(args, "--unix-socket", path), "http://weir"
	} else if c.TLS != nil {
		url = "https://" + address
	}
	switch {
	case o.listeners.token != "":
		args = append(args, fmt.Sprintf(`-H "Authorization: Bearer $(cat %s)"`, o.listeners.token))
	case c.Auth.Token != nil:
		args = append(args, `-H "Authorization: Bearer $WEIR_TOKEN"`)
	case o.listeners.tls.ClientCA != "":
		args = append(args, "--cert CERTIFICATE --key KEY")
	}
	return strings.Join(append(args, "-d", "'"+string(body)+"'", url+"/v1/check"), " ")
}

// loadPolicies reads the policies to serve. With an Envoy configuration and without
// a file there are none.
func (o *serveOptions) loadPolicies(stderr io.Writer) (policySource, error) {
	if o.policies == "" && o.envoy.config != "" {
		return policySource{file: &policy.File{Name: "none"}, name: "none"}, nil
	}
	return loadPolicies(o.policies, stderr)
}
