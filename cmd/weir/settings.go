package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/policy"
)

const (
	policiesHelp = "the policy `FILE`, such as weir.yaml"
	storeHelp    = "where histories are kept: memory (of this process, lost when it ends), file:DIR (on disk, with ?sync=always or 100ms), " +
		"or a `URL`: redis://host:port, redis+sentinel://…, redis+cluster://…, rediss://… for TLS; with ?prefix=TEXT before every key"
)

// maxRecordFiles bounds the files of a trace. Each new file renames all of them.
const maxRecordFiles = 1000

// table returns all settings of weir serve, each with a field of o as its value.
func (o *serveOptions) table() (t settings) {
	c := &o.config
	c.Limits = server.DefaultLimits
	t.add("", "Policies",
		&setting{name: "policies", short: "p", value: textValue(&o.policies), common: true, help: policiesHelp},
	)
	t.add("store", "Store",
		&setting{name: "store", value: storeValue(&o.storeName), common: true, help: storeHelp, shown: shownStore},
		&setting{name: "max-memory", value: sizeValue(&o.maxMemory, 0),
			help: "with --store memory and file:, the most memory of histories, a `SIZE` of 1MiB or more such as 512MiB; " +
				"at the bound new keys get an error, and no history that counts is evicted; default: no bound"},
		&setting{name: "instances", value: intValue(&o.instances, 1, 1, math.MaxInt, "it is the largest number of weir serve that run at any time, such as 4"), common: true,
			help: "the largest number `N` of weir serve that share the store; with when-store-is-down: share each grants Max/N in an outage"},
		&setting{name: "store-budget", value: durationValue(&o.storeTimeout, 50*time.Millisecond, false, "it is the time that callers can wait, such as 50ms"),
			help: "the timeout of the store, a `DURATION` such as 50ms; after it when-store-is-down applies"},
	)
	t.add("listeners", "Listeners",
		&setting{name: "listen", value: addressValue(&c.Listen, "127.0.0.1:7070"), common: true,
			help: "the `ADDRESS` of the HTTP listener, host:port or unix:/path; port 0 chooses a free port"},
		&setting{name: "admin-listen", value: addressValue(&c.AdminListen, ""),
			help: "a separate `ADDRESS` for metrics, reloads and resets of keys; default: that of --listen, or 127.0.0.1:7072 if other machines can reach --listen"},
		&setting{name: "resp-listen", value: addressValue(&c.RESPListen, ""),
			help: "the `ADDRESS` for Redis clients, such as 127.0.0.1:7073; default: none"},
		&setting{name: "socket-mode", value: modeValue(&c.SocketMode, 0o660, "with 0660 the user and the group of weir can connect"),
			help: "the permissions of unix sockets, as an octal `MODE`"},
		&setting{name: "host", value: namesValue(&o.hosts),
			help: "a host `NAME` besides localhost that requests to a listener without authentication may use; repeat it for more names"},
		&setting{name: "insecure-listen", value: boolValue(&c.Insecure),
			help: "allow listeners that other machines can reach without a token or a certificate"},
	)
	t.add("tokens", "Tokens and secrets",
		&setting{name: "token-file", value: textValue(&o.secrets.token), common: true, variables: []string{"WEIR_TOKEN"},
			help: "a `FILE` with the token that callers must send as Authorization: Bearer"},
		&setting{name: "admin-token-file", value: textValue(&o.secrets.admin), variables: []string{"WEIR_ADMIN_TOKEN"},
			help: "a `FILE` with the token that operators must send"},
		&setting{name: "gate-secret-file", value: textValue(&o.secrets.gate), variables: []string{"WEIR_GATE_SECRET"},
			help: "a `FILE` with the secret that proxies must send to gates as " + httpapi.GateHeader + "; without --token-file it closes all other calls"},
		&setting{name: "gate-id-header", value: fieldValue(&c.GateID),
			help: "the header field `NAME` in which proxies send an idempotency key to gates; the proxy must set it and discard that of its clients"},
		&setting{name: "reservation-secret-file", value: textValue(&o.secrets.reservations), variables: []string{"WEIR_RESERVATION_SECRET"},
			help: "a `FILE` with the secret with which several weir serve settle each other's reservations; default: a random secret of this process"},
	)
	t.add("tls", "TLS",
		&setting{name: "tls-cert", value: textValue(&o.tls.Cert), common: true, help: "a `FILE` with the certificate, in PEM; weir reads it again when it changes"},
		&setting{name: "tls-key", value: textValue(&o.tls.Key), common: true, help: "a `FILE` with the certificate's private key, in PEM"},
		&setting{name: "tls-client-ca", value: textValue(&o.tls.ClientCA),
			help: "a `FILE` with authorities, in PEM; a client certificate of theirs replaces the token"},
	)
	t.add("load", "Load and shutdown",
		&setting{name: "max-connections", value: intValue(&c.Limits.Conns, c.Limits.Conns, 1, math.MaxInt, "leave it out for the default"),
			help: "the most open connections of each listener; further callers get 503, probes are still answered"},
		&setting{name: "max-connections-per-address", value: intValue(&c.Limits.PerAddress, 0, 0, math.MaxInt, "leave it out for the default"), shown: shownUnlessZero,
			help: "the most of them for one client address before it has authenticated, or at all if nothing is required; " +
				"default: a quarter of --max-connections, without bound on loopback if nothing is required"},
		&setting{name: "max-in-flight", value: intValue(&c.Limits.InFlight, c.Limits.InFlight, 1, math.MaxInt, "leave it out for the default"),
			help: "the most requests that wait for the store at once; further ones get 503"},
		&setting{name: "linger", value: durationValue(&c.Limits.Linger, c.Limits.Linger, true, "write 5s, for example"),
			help: "after SIGTERM, accept requests for so long while /readyz reports 503"},
		&setting{name: "drain", value: durationValue(&c.Limits.Drain, c.Limits.Drain, false, "write 10s, for example"),
			help: "after that, wait so long for requests in flight"},
	)
	t.add("logging", "Logs and traces",
		&setting{name: "log-format", value: wordValue(&o.logFormat, "text", "text is the default", "text", "json"), common: true,
			help: "the `FORMAT` of stderr: text, or json with one object per line"},
		&setting{name: "log-level", value: wordValue(&o.logLevel, slog.LevelInfo, "info is the default", slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError),
			help: "the least `LEVEL` that is logged: debug, info, warn or error"},
		&setting{name: "top-keys", value: wordValue(&c.TopKeys, topkeys.Shown, "shown is the default", topkeys.Shown, topkeys.Hashed, topkeys.Off),
			help: "`HOW` GET /v1/top and weir top print the keys denied most: shown, hashed or off"},
		&setting{name: "otlp-endpoint", value: collectorValue(&o.otlpEndpoint), shown: redact.URL,
			variables: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
			help:      "the `URL` of an OpenTelemetry collector that gets spans of decisions, such as http://127.0.0.1:4318; default: no traces"},
		&setting{name: "otlp-ratio", value: ratioValue(&o.otlpRatio, 0.01), variables: []string{"OTEL_TRACES_SAMPLER"},
			help: "the share of calls without a trace that begin one, 0 to 1"},
	)
	t.add("recording", "Recording",
		&setting{name: "record", value: textValue(&o.record.Path),
			help: "write calls to the trace `FILE`, for weir replay and weir suggest; default: none are written"},
		&setting{name: "record-sample", value: shareValue(&o.record.Sample, 10),
			help: "the `SHARE` of keys that are recorded, each with all of its calls: 1/10, or 1 for all"},
		&setting{name: "record-size", value: sizeValue(&o.record.FileBytes, 64<<20),
			help: "the most bytes of a file, a `SIZE` such as 64MiB; then FILE is renamed to FILE.1, FILE.1 to FILE.2 and so on"},
		&setting{name: "record-files", value: intValue(&o.record.Files, 4, 1, maxRecordFiles, "4 is the default"),
			help: "the most files, with FILE itself; the oldest is deleted"},
		&setting{name: "record-secret-file", value: textValue(&o.record.secretFile), variables: []string{"WEIR_RECORD_SECRET"},
			help: "a `FILE` with the secret that hashes keys and chooses the sample, the same for several weir serve; default: a random secret of this process"},
		&setting{name: "record-plain-keys", value: boolValue(&o.record.Plain),
			help: "write keys as they are: addresses, users and API keys of callers are then readable in the trace"},
	)
	t.add("envoy", "Envoy's rate limit service",
		&setting{name: "grpc-listen", value: addressValue(&c.GRPCListen, ""), common: true,
			help: "the `ADDRESS` of Envoy's rate limit service over gRPC, host:port or unix:/path; default: none"},
		&setting{name: "envoy-config", value: textValue(&o.envoyConfig),
			help: "the `PATH` of a configuration of Envoy's reference rate limit service: a file or a directory of files"},
		&setting{name: "grpc-max-connection-age", value: durationValue(&c.EnvoyOptions.MaxConnectionAge, 0, true, "write 30m, for example; 0 = without bound"),
			help: "the longest life of a gRPC connection, so that clients find new servers; 0 = without bound"},
		&setting{name: "envoy-windows", value: wordValue(&c.EnvoyOptions.Windows, envoy.Rolling, "rolling is exact; fixed allows up to twice the limit across an edge", envoy.Rolling, envoy.Fixed, envoy.CalendarMonth),
			help: "the `KIND` of its windows: rolling, fixed as in the reference, or calendar-month, which is fixed but for months"},
		&setting{name: "envoy-headers", value: wordValue(&o.envoyHeaders, "none", "response adds fields to the client's answer, request to the forwarded request", "response", "request", "both", "none"),
			help: "`WHERE` to put header fields with the limit and the units left: response, request, both or none"},
		&setting{name: "envoy-when-store-is-down", value: wordValue(&c.EnvoyOptions.Outage, fallback.Deny, "deny keeps the limits, allow keeps requests going, share keeps both in part", fallback.Deny, fallback.Allow, fallback.Share),
			help: "the `MODE` of its limits in an outage of the store: deny (an error), allow or share"},
	)
	return t
}

// shownStore returns the name of a store without a password.
func shownStore(name string) string {
	shown, _ := store.Describe(name) // name is valid
	return shown
}

// shownUnlessZero returns "" for 0, which stands for a default that depends on other settings.
func shownUnlessZero(number string) string {
	if number == "0" {
		return ""
	}
	return number
}

// A setting of weir serve is a flag, and the key of that name in the configuration file.
type setting struct {
	name      string // the flag and the key
	short     string // one-letter form of the flag; "" if there is none
	value     *value
	help      string
	common    bool                      // listed by weir serve -h without --all
	variables []string                  // the environment variables that take precedence over the file
	shown     func(value string) string // the value for config print, without secrets; nil = as it is

	section section
	source  string        // the source of the value: --NAME, $VARIABLE or FILE:LINE; "" for the default
	place   *policy.Error // the place of the value in the configuration file, nil if it is not there
}

// A section groups settings in the help and in the configuration file.
type section struct {
	name    string // key of the file; "" for settings that stand outside of sections
	heading string // heading in the help
}

// String returns the name of the section in messages.
func (s section) String() string {
	if s.name == "" {
		return "the top level of the file"
	}
	return "section " + s.name
}

// settings is the table of all settings, by sections.
type settings []*setting

// in returns the settings of a section.
func (t settings) in(section string) (some settings) {
	for _, s := range t {
		if s.section.name == section {
			some = append(some, s)
		}
	}
	return some
}

// setting returns the setting of that name, or nil.
func (t settings) setting(name string) *setting {
	for _, s := range t {
		if s.name == name {
			return s
		}
	}
	return nil
}

// add adds settings in a section.
func (t *settings) add(name, heading string, all ...*setting) {
	for _, s := range all {
		s.section = section{name, heading}
	}
	*t = append(*t, all...)
}

// allFlag is the flag with which help lists every setting.
const allFlag = "all"

// rareAnnotation marks the flags that are not common.
const rareAnnotation = "rare"

// settingsCommand returns a command with a flag for each setting. run gets the settings with
// their values from flags, the environment and the configuration file.
func settingsCommand(use, short string, run func(cmd *cobra.Command, o *serveOptions, table settings) error) *cobra.Command {
	var o serveOptions
	var file string
	var all bool
	table := o.table()
	cmd := newCommand(use, short, wantArgs(0, 0, ""), func(cmd *cobra.Command, _ []string) error {
		if all {
			return cmd.Help()
		}
		if err := table.resolve(cmd.Flags(), file); err != nil {
			return err
		}
		return run(cmd, &o, table)
	})
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "the configuration `FILE`, such as weir-serve.yaml, in which each setting is a key; flags and the environment override it")
	f.BoolVar(&all, allFlag, false, "show all flags, also the rarer ones")
	group(cmd, "Configuration:")
	table.addFlags(cmd)
	for _, name := range []string{"config", "policies"} {
		cmd.MarkFlagFilename(name, "yaml", "yml")
	}
	return cmd
}

// addFlags adds a flag for each setting.
func (t settings) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	for _, s := range t {
		flag := f.VarPF(s.value, s.name, s.short, s.help)
		if len(s.variables) > 0 {
			flag.Usage += "; or set $" + s.variables[0]
		}
		if s.value.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
		if !s.common {
			f.SetAnnotation(s.name, rareAnnotation, []string{""})
		}
		group(cmd, s.section.heading+":")
	}
}

// resolve sets the sources of all values, and the values of the configuration file that no
// flag and no variable replaces. path is "" without a file.
func (t settings) resolve(flags *pflag.FlagSet, path string) error {
	for _, s := range t {
		if flags.Changed(s.name) {
			s.source = "--" + s.name
			continue
		}
		for _, name := range s.variables {
			// An empty secret is an error. An empty variable of OpenTelemetry is unset.
			text, set := os.LookupEnv(name)
			if set && s.source == "" && (text != "" || strings.HasPrefix(name, "WEIR_")) {
				s.source = "$" + name
			}
		}
	}
	if path == "" {
		return nil
	}
	_, err := t.load(path)
	return err
}

// label returns the source of the value and the name of the setting, for error messages.
func (s *setting) label() string {
	switch {
	case s.place != nil:
		return s.source + ": " + s.name
	case strings.HasPrefix(s.source, "$"):
		return s.source
	}
	return "--" + s.name
}

// wrong returns the failure for a value that does not fit other settings. The problem
// goes on from the name of the setting.
func (s *setting) wrong(next, problem string, args ...any) error {
	if s.place == nil {
		return usage(next, "--"+s.name+" "+problem, args...)
	}
	at := *s.place
	at.Problem, at.Next = s.name+" "+fmt.Sprintf(problem, args...), next
	return &at
}

// shownValue returns the value in a form without secrets, "" for none.
func (s *setting) shownValue() string {
	text := s.value.String()
	if s.shown != nil && text != "" {
		return s.shown(text)
	}
	return text
}
