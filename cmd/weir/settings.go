package main

import (
	"math"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/cmd/weir/internal/store"
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
	t.add("", "Policies",
		&setting{name: "policies", short: "p", value: textValue(&o.policies), common: true, help: policiesHelp},
	)
	t.add("store", "Store",
		&setting{name: "store", value: storeValue(&o.storeName), common: true, help: storeHelp, shown: shownStore},
		&setting{name: "max-memory", value: sizeValue(&o.store.memory, 0),
			help: "with --store memory and file:, the most memory of histories, a `SIZE` of 1MiB or more such as 512MiB; " +
				"at the bound new keys get an error, and no history that counts is evicted; default: no bound"},
		&setting{name: "instances", value: intValue(&o.store.instances, 1, 1, math.MaxInt, "it is the largest number of weir serve that run at any time, such as 4"), common: true,
			help: "the largest number `N` of weir serve that share the store; with when-store-is-down: share each grants Max/N in an outage"},
		&setting{name: "store-budget", value: durationValue(&o.store.timeout, 50*time.Millisecond, false, "it is the time that callers can wait, such as 50ms"),
			help: "the timeout of the store, a `DURATION` such as 50ms; after it when-store-is-down applies"},
	)
	t.add("listeners", "Listeners",
		&setting{name: "listen", value: addressValue(&c.Listen, "127.0.0.1:7070"), common: true,
			help: "the `ADDRESS` of the HTTP listener, host:port or unix:/path; port 0 chooses a free port"},
		&setting{name: "admin-listen", value: addressValue(&c.AdminListen, ""),
			help: "a separate `ADDRESS` for metrics, reloads and resets of keys; default: that of --listen, or 127.0.0.1:7072 if other machines can reach --listen"},
		&setting{name: "resp-listen", value: addressValue(&c.RESPListen, ""),
			help: "the `ADDRESS` for Redis clients, such as 127.0.0.1:7073; default: none"},
		&setting{name: "socket-mode", value: modeValue(&o.listeners.socketMode, 0o660, "with 0660 the user and the group of weir can connect"),
			help: "the permissions of unix sockets, as an octal `MODE`"},
		&setting{name: "host", value: namesValue(&o.listeners.hosts),
			help: "a host `NAME` besides localhost that requests to a listener without authentication may use; repeat it for more names"},
		&setting{name: "insecure-listen", value: boolValue(&c.Insecure),
			help: "allow listeners that other machines can reach without a token or a certificate"},
	)
	t.add("tokens", "Tokens and secrets",
		&setting{name: "token-file", value: textValue(&o.listeners.token), common: true, variables: []string{"WEIR_TOKEN"},
			help: "a `FILE` with the token that callers must send as Authorization: Bearer"},
		&setting{name: "admin-token-file", value: textValue(&o.listeners.adminToken), variables: []string{"WEIR_ADMIN_TOKEN"},
			help: "a `FILE` with the token that operators must send"},
		&setting{name: "gate-secret-file", value: textValue(&o.listeners.gateSecret), variables: []string{"WEIR_GATE_SECRET"},
			help: "a `FILE` with the secret that proxies must send to gates as " + httpapi.GateHeader + "; without --token-file it closes all other calls"},
		&setting{name: "gate-id-header", value: textValue(&c.GateID),
			help: "the header field `NAME` in which proxies send an idempotency key to gates; the proxy must set it and discard that of its clients"},
		&setting{name: "reservation-secret-file", value: textValue(&o.reservations), variables: []string{"WEIR_RESERVATION_SECRET"},
			help: "a `FILE` with the secret with which several weir serve settle each other's reservations; default: a random secret of this process"},
	)
	t.add("tls", "TLS",
		&setting{name: "tls-cert", value: textValue(&o.listeners.tls.Cert), common: true, help: "a `FILE` with the certificate, in PEM; weir reads it again when it changes"},
		&setting{name: "tls-key", value: textValue(&o.listeners.tls.Key), common: true, help: "a `FILE` with the certificate's private key, in PEM"},
		&setting{name: "tls-client-ca", value: textValue(&o.listeners.tls.ClientCA),
			help: "a `FILE` with authorities, in PEM; a client certificate of theirs replaces the token"},
	)
	t.add("load", "Load and shutdown",
		&setting{name: "max-connections", value: intValue(&c.Limits.Conns, 10_000, 1, math.MaxInt, "leave it out for the default"),
			help: "the most open connections of each listener; further callers get 503, probes are still answered"},
		&setting{name: "max-connections-per-address", value: intValue(&c.Limits.PerAddress, 0, 0, math.MaxInt, "leave it out for the default"),
			help: "the most of them for one client address before it has authenticated, or at all if nothing is required; " +
				"default: a quarter of --max-connections, without bound on loopback if nothing is required"},
		&setting{name: "max-in-flight", value: intValue(&c.Limits.InFlight, 1000, 1, math.MaxInt, "leave it out for the default"),
			help: "the most requests that wait for the store at once; further ones get 503"},
		&setting{name: "linger", value: durationValue(&c.Limits.Linger, 250*time.Millisecond, true, "write 5s, for example"),
			help: "after SIGTERM, accept requests for so long while /readyz reports 503"},
		&setting{name: "drain", value: durationValue(&c.Limits.Drain, 10*time.Second, false, "write 10s, for example"),
			help: "after that, wait so long for requests in flight"},
	)
	t.add("logging", "Logs and traces",
		&setting{name: "log-format", value: wordValue(&o.observe.format, "text", "text is the default", "text", "json"), common: true,
			help: "the `FORMAT` of stderr: text, or json with one object per line"},
		&setting{name: "log-level", value: wordValue(&o.observe.level, "info", "info is the default", "debug", "info", "warn", "error"),
			help: "the least `LEVEL` that is logged: debug, info, warn or error"},
		&setting{name: "top-keys", value: wordValue(&o.observe.topKeys, "shown", "shown is the default", "shown", "hashed", "off"),
			help: "`HOW` GET /v1/top and weir top print the keys denied most: shown, hashed or off"},
		&setting{name: "otlp-endpoint", value: textValue(&o.observe.endpoint), shown: redact.URL,
			variables: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
			help:      "the `URL` of an OpenTelemetry collector that gets a span of each decision, such as http://127.0.0.1:4318; default: no traces"},
		&setting{name: "otlp-ratio", value: ratioValue(&o.observe.ratio, 0.01), variables: []string{"OTEL_TRACES_SAMPLER"},
			help: "the share of calls without a trace that begin one, 0 to 1"},
	)
	t.add("recording", "Recording",
		&setting{name: "record", value: textValue(&o.record.path),
			help: "write calls to the trace `FILE`, for weir replay and weir suggest; default: none are written"},
		&setting{name: "record-sample", value: shareValue(&o.record.sample, 10),
			help: "the `SHARE` of keys that are recorded, each with all of its calls: 1/10, or 1 for all"},
		&setting{name: "record-size", value: sizeValue(&o.record.size, 64<<20),
			help: "the most bytes of a file, a `SIZE` such as 64MiB; then FILE is renamed to FILE.1, FILE.1 to FILE.2 and so on"},
		&setting{name: "record-files", value: intValue(&o.record.files, 4, 1, maxRecordFiles, "4 is the default"),
			help: "the most files, with FILE itself; the oldest is deleted"},
		&setting{name: "record-secret-file", value: textValue(&o.record.secret), variables: []string{"WEIR_RECORD_SECRET"},
			help: "a `FILE` with the secret that hashes keys and chooses the sample, the same for several weir serve; default: a random secret of this process"},
		&setting{name: "record-plain-keys", value: boolValue(&o.record.plain),
			help: "write keys as they are: addresses, users and API keys of callers are then readable in the trace"},
	)
	t.add("envoy", "Envoy's rate limit service",
		&setting{name: "grpc-listen", value: addressValue(&c.GRPCListen, ""), common: true,
			help: "the `ADDRESS` of Envoy's rate limit service over gRPC, host:port or unix:/path; default: none"},
		&setting{name: "envoy-config", value: textValue(&o.envoy.config),
			help: "the `PATH` of a configuration of Envoy's reference rate limit service: a file or a directory of files"},
		&setting{name: "grpc-max-connection-age", value: durationValue(&o.envoy.MaxConnectionAge, 0, true, "write 30m, for example; 0 = without bound"),
			help: "the longest life of a gRPC connection, so that clients find new servers; 0 = without bound"},
		&setting{name: "envoy-windows", value: wordValue(&o.envoy.windows, "rolling", "rolling is exact; fixed allows up to twice the limit across an edge", "rolling", "fixed", "calendar-month"),
			help: "the `KIND` of its windows: rolling, fixed as in the reference, or calendar-month, which is fixed but for months"},
		&setting{name: "envoy-headers", value: wordValue(&o.envoy.headers, "none", "response adds fields to the client's answer, request to the forwarded request", "response", "request", "both", "none"),
			help: "`WHERE` to put header fields with the limit and the units left: response, request, both or none"},
		&setting{name: "envoy-when-store-is-down", value: wordValue(&o.envoy.storeDown, "deny", "deny keeps the limits, allow keeps requests going, share keeps both in part", "deny", "allow", "share"),
			help: "the `MODE` of its limits in an outage of the store: deny (an error), allow or share"},
	)
	return t
}

// shownStore returns the name of a store without a password.
func shownStore(name string) string {
	shown, _ := store.Describe(name) // name is valid
	return shown
}
