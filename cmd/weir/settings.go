package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/policy"
)

// mergeDomains is the name of a flag that weir serve and weir validate share.
const mergeDomains = "envoy-merge-domains"

// setDefaults sets the options to the values that they have without a flag, a variable or a file.
func (o *serveOptions) setDefaults() {
	o.storeName = "memory"
	o.instances = 1
	o.storeTimeout = 50 * time.Millisecond
	o.logFormat = "text"
	o.logLevel = slog.LevelInfo
	o.otlpRatio = 0.01
	o.record.Sample = 10
	o.record.FileBytes = 64 << 20
	o.record.Files = 4 // the number of files; --record-size bounds each
	o.envoyHeaders = "none"

	c := &o.config
	c.Listen = "127.0.0.1:7070"
	c.SocketMode = 0o660
	c.Limits = server.DefaultLimits
	c.Limits.PerAddress = 0 // 0: the server derives it from other settings
	c.TopKeys = topkeys.Shown
	c.EnvoyOptions.Windows = envoy.Rolling
	c.EnvoyOptions.Outage = fallback.Deny
}

// bindSettings sets the defaults and returns all settings of weir serve. The value of a setting
// is a field of o. help/settings.txt has their help.
func (o *serveOptions) bindSettings() (t settings) {
	o.setDefaults()
	c := &o.config
	path := func(to *string) *textValue { return &textValue{to: to} }
	// secretSource reads the value of a secret, so no field of o holds it.
	secret := func() *textValue { return &textValue{to: new(string)} }
	address := func(to *string) *textValue { return &textValue{to: to, check: checkListenAddress} }
	count := func(to *int, least int) *intValue {
		const next = "leave it out for the default"
		return &intValue{to: to, least: least, most: math.MaxInt, next: next}
	}
	t.add("", "Policies", settings{
		{name: "policies", short: "p", common: true, value: path(&o.policies)},
		{name: "inline-policies", value: (*boolValue)(&c.Inline)},
	})
	t.add("store", "Store", settings{
		{
			name:   "store",
			common: true,
			value:  &textValue{to: &o.storeName, check: checkStoreName},
			shown:  shownStore,
		},
		{name: "max-memory", value: (*sizeValue)(&o.maxMemory)},
		{name: "instances", common: true, value: &intValue{
			to:    &o.instances,
			least: 1,
			most:  math.MaxInt,
			next:  "it is the largest number of weir serve that run at any time, such as 4",
		}},
		{name: "store-budget", value: &durationValue{
			to:    &o.storeTimeout,
			least: 1,
			next:  "it is the time that callers can wait, such as 50ms",
		}},
	})
	t.add("listeners", "Listeners", settings{
		{name: "listen", common: true, value: address(&c.Listen)},
		{name: "admin-listen", value: address(&c.AdminListen)},
		{name: "resp-listen", value: address(&c.RESPListen)},
		{name: "socket-mode", value: (*modeValue)(&c.SocketMode)},
		{name: "host", value: (*namesValue)(&o.hosts)},
		{name: "insecure-listen", value: (*boolValue)(&c.Insecure)},
	})
	t.add("tokens", "Tokens and secrets", settings{
		{name: "token-file", common: true, value: secret(), variables: []string{"WEIR_TOKEN"}},
		{name: "admin-token-file", value: secret(), variables: []string{"WEIR_ADMIN_TOKEN"}},
		{name: "gate-secret-file", value: secret(), variables: []string{"WEIR_GATE_SECRET"}},
		{name: "gate-id-header", value: &textValue{to: &c.GateID, check: checkHeaderField}},
	})
	t.add("tls", "TLS", settings{
		{name: "tls-cert", common: true, value: path(&o.tls.Cert)},
		{name: "tls-key", common: true, value: path(&o.tls.Key)},
		{name: "tls-client-ca", value: path(&o.tls.ClientCA)},
	})
	t.add("load", "Load and shutdown", settings{
		{name: "max-connections", value: count(&c.Limits.Conns, 1)},
		{
			name:  "max-connections-per-address",
			value: count(&c.Limits.PerAddress, 0),
			shown: shownUnlessZero,
		},
		{name: "max-in-flight", value: count(&c.Limits.InFlight, 1)},
		{name: "linger", value: &durationValue{
			to:   &c.Limits.Linger,
			next: "write 5s, for example",
		}},
		{name: "drain", value: &durationValue{
			to:    &c.Limits.Drain,
			least: 1,
			next:  "write 10s, for example",
		}},
	})
	t.add("logging", "Logs and traces", settings{
		{name: "log-format", common: true, value: &wordValue[string]{
			to:   &o.logFormat,
			all:  []string{"text", "json"},
			next: "text is the default",
		}},
		{name: "log-level", value: &wordValue[slog.Level]{
			to:   &o.logLevel,
			all:  []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError},
			next: "info is the default",
		}},
		{name: "top-keys", value: &wordValue[topkeys.Form]{
			to:   &c.TopKeys,
			all:  []topkeys.Form{topkeys.Shown, topkeys.Hashed, topkeys.Off},
			next: "shown is the default",
		}},
		{
			name:      "otlp-endpoint",
			value:     &textValue{to: &o.otlpEndpoint, check: checkCollector},
			shown:     redact.URL,
			variables: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		},
		{
			name:      "otlp-ratio",
			value:     (*ratioValue)(&o.otlpRatio),
			variables: []string{"OTEL_TRACES_SAMPLER"},
		},
	})
	t.add("recording", "Recording", settings{
		{name: "record", value: &textValue{to: &o.record.Path, check: rejectStream}},
		{name: "record-sample", value: (*shareValue)(&o.record.Sample)},
		{name: "record-size", value: (*sizeValue)(&o.record.FileBytes)},
		{name: "record-secret-file", value: secret(), variables: []string{"WEIR_RECORD_SECRET"}},
		{name: "record-plain-keys", value: (*boolValue)(&o.record.Plain)},
	})
	t.add("envoy", "Envoy's rate limit service", settings{
		{name: "grpc-listen", common: true, value: address(&c.GRPCListen)},
		{name: "envoy-config", value: path(&o.envoyConfig)},
		{name: mergeDomains, value: (*boolValue)(&o.envoyOptions.MergeDomains)},
		{name: "grpc-max-connection-age", value: &durationValue{
			to:   &c.EnvoyOptions.MaxConnectionAge,
			next: "write 30m, for example; 0 = without bound",
		}},
		{name: "envoy-windows", value: &wordValue[envoy.Windows]{
			to:   &c.EnvoyOptions.Windows,
			all:  []envoy.Windows{envoy.Rolling, envoy.Fixed, envoy.CalendarMonth},
			next: "rolling is exact; fixed allows up to twice the limit across an edge",
		}},
		{name: "envoy-headers", value: &wordValue[string]{
			to:   &o.envoyHeaders,
			all:  []string{"response", "request", "both", "none"},
			next: "response adds fields to the client's answer, request to the forwarded request",
		}},
		{name: "envoy-when-store-is-down", value: &wordValue[engine.Outage]{
			to:   &c.EnvoyOptions.Outage,
			all:  []engine.Outage{fallback.Deny, fallback.Allow, fallback.Share},
			next: "deny keeps the limits, allow keeps requests going, share keeps both in part",
		}},
	})
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

// A setting of weir serve is a flag and a key of the configuration file, both with its name.
// Secrets may also come from environment variables, and settings of traces from the variables of
// OpenTelemetry. A flag takes precedence over a variable, and a variable over the file.
type setting struct {
	name      string // name of the flag and of the key
	short     string // one-letter form of the flag; "" if there is none
	value     pflag.Value
	common    bool     // listed by weir serve -h without --all
	variables []string // its environment variables; the first is in the help

	// shown returns the value for weir config print, without secrets. If it is nil, the value is
	// printed as it is.
	shown func(value string) string

	section section
	source  string        // --NAME, $VARIABLE or FILE:LINE; "": the value is the default
	place   *policy.Error // where the configuration file sets the value; nil if it does not
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

// settings is the list of all settings, in the order of their sections.
type settings []*setting

// inSection returns the settings of a section.
func (t settings) inSection(section string) (some settings) {
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

// add appends settings and puts them in a section.
func (t *settings) add(name, heading string, all settings) {
	for _, s := range all {
		s.section = section{name, heading}
	}
	*t = append(*t, all...)
}

// allFlag is the name of the flag with which -h lists every setting.
const allFlag = "all"

// rareAnnotation marks the flags that -h lists only with --all.
const rareAnnotation = "rare"

// settingsCommand returns a command with a flag for each setting. run receives the settings
// with their values from flags, the environment and the configuration file.
func settingsCommand(
	use, short string, run func(cmd *cobra.Command, o *serveOptions, table settings) error,
) *cobra.Command {
	var o serveOptions
	var file string
	var all bool
	table := o.bindSettings()
	cmd := newCommand(use, short, wantArgs(0, 0, ""), func(cmd *cobra.Command, _ []string) error {
		if all {
			return cmd.Help()
		}
		table.markSources(cmd.Flags())
		if file != "" {
			if _, err := table.load(file); err != nil {
				return err
			}
		}
		return run(cmd, &o, table)
	})
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "the configuration `FILE`, such as weir-serve.yaml, "+
		"in which each setting is a key; flags and the environment override it")
	f.BoolVar(&all, allFlag, false, "show all flags, also the rarer ones")
	groupFlags(cmd, "Configuration:")
	table.addFlags(cmd)
	return cmd
}

// settingHelp returns the help of each setting. In help/settings.txt a paragraph is the name of a
// setting, a colon and its help.
var settingHelp = sync.OnceValue(func() map[string]string {
	text, _ := helpTexts.ReadFile("help/settings.txt")
	all := map[string]string{}
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		name, help, _ := strings.Cut(paragraph, ":")
		all[name] = strings.Join(strings.Fields(help), " ")
	}
	return all
})

// addFlags adds a flag for each setting.
func (t settings) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	for _, s := range t {
		flag := f.VarPF(s.value, s.name, s.short, settingHelp()[s.name])
		if len(s.variables) > 0 {
			flag.Usage += "; or set $" + s.variables[0]
		}
		if s.value.Type() == "bool" {
			flag.NoOptDefVal = "true"
		}
		if !s.common {
			f.SetAnnotation(s.name, rareAnnotation, []string{""})
		}
		groupFlags(cmd, s.section.heading+":")
	}
}

// markSources sets the source of each setting that a flag or a variable sets. load does not
// change the values of these settings.
func (t settings) markSources(flags *pflag.FlagSet) {
	for _, s := range t {
		if flags.Changed(s.name) {
			s.source = "--" + s.name
		} else if name := s.presentVariable(); name != "" {
			s.source = "$" + name
		}
	}
}

// presentVariable returns the first environment variable of the setting that is set, or "". An
// empty variable of OpenTelemetry counts as unset. An empty secret counts as set, so that it is
// rejected.
func (s *setting) presentVariable() string {
	for _, name := range s.variables {
		text, set := os.LookupEnv(name)
		if text != "" || set && strings.HasPrefix(name, "WEIR_") {
			return name
		}
	}
	return ""
}

// isVariable reports whether the value comes from an environment variable.
func (s *setting) isVariable() bool { return strings.HasPrefix(s.source, "$") }

// label returns the name of the setting with the source of its value, for error messages.
func (s *setting) label() string {
	switch {
	case s.place != nil:
		return s.source + ": " + s.name
	case s.isVariable():
		return s.source
	}
	return "--" + s.name
}

// failure returns the error of a value that does not fit other settings. Its message is the
// name of the setting, followed by the problem.
func (s *setting) failure(next, problem string, args ...any) error {
	if s.place == nil {
		return usage(next, "--"+s.name+" "+problem, args...)
	}
	at := *s.place
	at.Problem, at.Next = s.name+" "+fmt.Sprintf(problem, args...), next
	return &at
}

// shownValue returns the value without secrets. It is "" if there is none, or if an environment
// variable sets it.
func (s *setting) shownValue() string {
	text := s.value.String()
	if s.isVariable() {
		return ""
	}
	if s.shown != nil && text != "" {
		return s.shown(text)
	}
	return text
}
