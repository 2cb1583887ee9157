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
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/policy"
)

// maxRecordFiles bounds the files of a trace. Each new file renames all of them.
const maxRecordFiles = 1000

// mergeDomains is a flag of weir serve and of weir validate.
const mergeDomains = "envoy-merge-domains"

// table returns all settings of weir serve, each with a field of o as its value. Their help is in
// help/settings.txt.
func (o *serveOptions) table() (t settings) {
	c := &o.config
	c.Limits = server.DefaultLimits
	t.add("", "Policies", settings{
		{name: "policies", short: "p", value: textValue(&o.policies, "", anyText), common: true},
		{name: "inline-policies", value: boolValue(&c.Inline)},
	})
	t.add("store", "Store", settings{
		{name: "store", value: textValue(&o.storeName, "memory", isStore), common: true, shown: shownStore},
		{name: "max-memory", value: sizeValue(&o.maxMemory, 0)},
		{name: "instances", value: intValue(&o.instances, 1, 1, math.MaxInt, "it is the largest number of weir serve that run at any time, such as 4"), common: true},
		{name: "store-budget", value: durationValue(&o.storeTimeout, 50*time.Millisecond, 1, "it is the time that callers can wait, such as 50ms")},
	})
	t.add("listeners", "Listeners", settings{
		{name: "listen", value: textValue(&c.Listen, "127.0.0.1:7070", isAddress), common: true},
		{name: "admin-listen", value: textValue(&c.AdminListen, "", isAddress)},
		{name: "resp-listen", value: textValue(&c.RESPListen, "", isAddress)},
		{name: "socket-mode", value: modeValue(&c.SocketMode, 0o660, "with 0660 the user and the group of weir can connect")},
		{name: "host", value: namesValue(&o.hosts)},
		{name: "insecure-listen", value: boolValue(&c.Insecure)},
	})
	t.add("tokens", "Tokens and secrets", settings{
		{name: "token-file", value: textValue(new(string), "", anyText), common: true, variables: []string{"WEIR_TOKEN"}},
		{name: "admin-token-file", value: textValue(new(string), "", anyText), variables: []string{"WEIR_ADMIN_TOKEN"}},
		{name: "gate-secret-file", value: textValue(new(string), "", anyText), variables: []string{"WEIR_GATE_SECRET"}},
		{name: "gate-id-header", value: textValue(&c.GateID, "", isField)},
	})
	t.add("tls", "TLS", settings{
		{name: "tls-cert", value: textValue(&o.tls.Cert, "", anyText), common: true},
		{name: "tls-key", value: textValue(&o.tls.Key, "", anyText), common: true},
		{name: "tls-client-ca", value: textValue(&o.tls.ClientCA, "", anyText)},
	})
	t.add("load", "Load and shutdown", settings{
		{name: "max-connections", value: intValue(&c.Limits.Conns, c.Limits.Conns, 1, math.MaxInt, "leave it out for the default")},
		{name: "max-connections-per-address", value: intValue(&c.Limits.PerAddress, 0, 0, math.MaxInt, "leave it out for the default"), shown: shownUnlessZero},
		{name: "max-in-flight", value: intValue(&c.Limits.InFlight, c.Limits.InFlight, 1, math.MaxInt, "leave it out for the default")},
		{name: "linger", value: durationValue(&c.Limits.Linger, c.Limits.Linger, 0, "write 5s, for example")},
		{name: "drain", value: durationValue(&c.Limits.Drain, c.Limits.Drain, 1, "write 10s, for example")},
	})
	t.add("logging", "Logs and traces", settings{
		{name: "log-format", value: wordValue(&o.logFormat, "text", "text is the default", "text", "json"), common: true},
		{name: "log-level", value: wordValue(&o.logLevel, slog.LevelInfo, "info is the default", slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError)},
		{name: "top-keys", value: wordValue(&c.TopKeys, topkeys.Shown, "shown is the default", topkeys.Shown, topkeys.Hashed, topkeys.Off)},
		{name: "otlp-endpoint", value: textValue(&o.otlpEndpoint, "", isCollector), shown: redact.URL,
			variables: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}},
		{name: "otlp-ratio", value: ratioValue(&o.otlpRatio, 0.01), variables: []string{"OTEL_TRACES_SAMPLER"}},
	})
	t.add("recording", "Recording", settings{
		{name: "record", value: textValue(&o.record.Path, "", isNoStream)},
		{name: "record-sample", value: shareValue(&o.record.Sample, 10)},
		{name: "record-size", value: sizeValue(&o.record.FileBytes, 64<<20)},
		{name: "record-files", value: intValue(&o.record.Files, 4, 1, maxRecordFiles, "4 is the default")},
		{name: "record-secret-file", value: textValue(new(string), "", anyText), variables: []string{"WEIR_RECORD_SECRET"}},
		{name: "record-plain-keys", value: boolValue(&o.record.Plain)},
	})
	t.add("envoy", "Envoy's rate limit service", settings{
		{name: "grpc-listen", value: textValue(&c.GRPCListen, "", isAddress), common: true},
		{name: "envoy-config", value: textValue(&o.envoyConfig, "", anyText)},
		{name: mergeDomains, value: boolValue(&o.envoyOptions.MergeDomains)},
		{name: "grpc-max-connection-age", value: durationValue(&c.EnvoyOptions.MaxConnectionAge, 0, 0, "write 30m, for example; 0 = without bound")},
		{name: "envoy-windows", value: wordValue(&c.EnvoyOptions.Windows, envoy.Rolling, "rolling is exact; fixed allows up to twice the limit across an edge", envoy.Rolling, envoy.Fixed, envoy.CalendarMonth)},
		{name: "envoy-headers", value: wordValue(&o.envoyHeaders, "none", "response adds fields to the client's answer, request to the forwarded request", "response", "request", "both", "none")},
		{name: "envoy-when-store-is-down", value: wordValue(&c.EnvoyOptions.Outage, fallback.Deny, "deny keeps the limits, allow keeps requests going, share keeps both in part", fallback.Deny, fallback.Allow, fallback.Share)},
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

// A setting of weir serve is a flag, and the key of that name in the configuration file.
type setting struct {
	name      string // the flag and the key
	short     string // one-letter form of the flag; "" if there is none
	value     *value
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
func (t *settings) add(name, heading string, all settings) {
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

// isVariable reports whether the value is that of an environment variable.
func (s *setting) isVariable() bool { return strings.HasPrefix(s.source, "$") }

// label returns the source of the value and the name of the setting, for error messages.
func (s *setting) label() string {
	switch {
	case s.place != nil:
		return s.source + ": " + s.name
	case s.isVariable():
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

// shownValue returns the value in a form without secrets, "" for none and for that of a variable.
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
