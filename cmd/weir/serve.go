package main

import (
	"cmp"
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

// serveOptions are the settings of weir serve.
type serveOptions struct {
	config              server.Config // partly set by settings
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
	var flags settingFlags
	table := o.table()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve decisions over HTTP",
		Args:  wantArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd, table, func() error { return serve(cmd, &o, table) })
		},
	}
	flags.add(cmd, table)
	return cmd
}

// check rejects settings that do not fit together.
func (o *serveOptions) check(table settings) error {
	return cmp.Or(o.store.check(o.storeName, table), o.record.check(table))
}

// serve checks the settings, begins to connect to the store, and runs a server until a
// signal.
func serve(cmd *cobra.Command, o *serveOptions, table settings) error {
	if err := o.check(table); err != nil {
		return err
	}
	log, stderr := o.observe.openLog(cmd.ErrOrStderr())
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
	o.envoy.readEnvironment(table, stderr)
	envoySeen, _ := envoyconf.Fingerprint(o.envoy.config)
	reloadSecrets, err := o.configure(config, table, log)
	if err != nil {
		return err
	}
	defer onHangup(reloadSecrets)()
	store, err := o.connectStore(config, log)
	if err != nil {
		return err
	}
	defer store.Close()
	if store.Shared && table.setting("instances").source == "" {
		noteInstances(stderr, source.file)
	}
	if config.Recorder, err = o.record.open(table, log); err != nil {
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

// configure reads the files of the listeners, of Envoy and of reservations, and sets the
// fields of c. reload reads the secrets again.
func (o *serveOptions) configure(c *server.Config, table settings, log *slog.Logger) (reload func(), err error) {
	c.TopKeys, _ = topkeys.ParseForm(o.observe.topKeys) // succeeds: it is one of the words of the setting
	if reload, err = o.listeners.configure(c, table, log); err != nil {
		return nil, err
	}
	if err = o.envoy.configure(c); err != nil {
		return nil, err
	}
	c.ReservationSecret, err = table.setting("reservation-secret-file").sharedSecret(log)
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
