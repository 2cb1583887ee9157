package weir_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/weirlimit/weir"

// A layer is one package of the module, by its directory, with the packages of the module
// that its programs may import. Imports point one way: a row names only rows above it.
type layer struct {
	dir     string
	imports []string
	why     string
}

var layers = []layer{
	{"internal/shorten", nil, "long values for errors and logs, the same everywhere"},
	{"internal/redact", []string{"internal/shorten"}, "URLs without secrets, for errors and logs"},
	{"internal/nearest", nil, "the nearest of some names, for errors that suggest one"},
	{"internal/clientaddr", nil, "the address that a client is counted by, the same for every front"},
	{"internal/slab", nil, "blocks of memory that the garbage collector does not scan; independent of limits"},
	{"internal/window", []string{"internal/slab"}, "arithmetic on histories, readable by any engine"},
	{"internal/keyenc", nil, "the one encoding of tuples of strings"},
	{"internal/keytable", []string{"internal/slab", "internal/window"}, "histories by key, with locks, expiry and caps; independent of policies and clocks"},
	{".", []string{"internal/keyenc", "internal/keytable", "internal/shorten", "internal/window"}, "every package imports it, so its dependencies would be those of every program"},
	{"fallback", []string{".", "internal/window"}, "decides while the store is slow or out; it works with every engine, so it imports no store"},
	{"internal/spec", []string{"."}, "the rules once more, naive: it shares the vocabulary and no arithmetic"},
	{"internal/answer", []string{".", "internal/shorten"}, "a decision as JSON and as a sentence, the same for every front"},
	{"internal/observe", []string{".", "internal/answer"}, "the words for the result of a call, for metrics, logs and traces; logs with a bound"},
	{"internal/otlp", []string{"internal/observe", "internal/redact", "internal/shorten"}, "spans for a collector; it makes no decisions"},
	{"internal/topkeys", []string{".", "internal/shorten"}, "the keys with the most denials; independent of policies and fronts"},
	{"internal/metrics", []string{"internal/observe"}, "metrics for Prometheus; independent of policies"},
	{"internal/conformance", []string{".", "internal/spec"}, "compares any engine with the specification"},
	{"weirtest", []string{".", "internal/conformance"}, "the public face of the conformance kit, and a faulty engine"},
	{"internal/testkit/needs", nil, "the things that a test needs; a test of any package may import it"},
	{"internal/testkit/runtests", []string{"internal/testkit/needs"}, "runs go test and reads its events; it needs no types of ours"},
	{"internal/testkit/race", nil, "the length of tests under the race detector; a test of any package may import it"},
	{"internal/testkit/program", []string{"internal/testkit/needs"}, "one build of weir for the tests that run it"},
	{"internal/strictjson", []string{"internal/shorten"}, "JSON with the places of mistakes; its callers define the members"},
	{"internal/testkit/jsontest", nil, "encoding/json made as strict; a reference must not share code with its subject"},
	{"internal/testkit/jsonschema", nil, "the words of JSON Schema, to write weir.schema.json with"},
	{"internal/testkit/txtar", nil, "archives of text files; fixtures in one file"},
	{"internal/testkit/mutants", nil, "changes sources and runs the go command; it needs no types"},
	{"internal/yamlnode", []string{"internal/shorten"}, "YAML to nodes with their places; independent of their meaning"},
	{"policy", []string{".", "fallback", "internal/nearest", "internal/shorten", "internal/yamlnode"}, "files to policies; it makes no decisions"},
	{"internal/filewatch", nil, "notices changed content of files; independent of its meaning"},
	{"enforce", []string{".", "fallback", "internal/answer", "internal/filewatch", "internal/keyenc", "internal/nearest", "policy"}, "the policies of a file at work, the same for every front and for library users"},
	{"internal/testkit/policytest", []string{".", "internal/answer", "enforce", "policy"}, "runs the tests of a policy file; its callers print the results"},
	{"accesslog", []string{"internal/shorten"}, "access logs as one sequence of requests; independent of limits and policies"},
	{"replay", []string{".", "accesslog", "internal/answer", "internal/clientaddr", "enforce", "internal/keyenc", "internal/shorten", "internal/strictjson", "policy"}, "traces and access logs in virtual time; it reads no policy files and serves nothing"},
	{"suggest", []string{".", "accesslog", "internal/answer", "policy", "replay"}, "limits for access logs; it decides recorded requests by its own history and serves nothing"},
	{"internal/keyby", []string{"."}, "the named key functions of weirhttp and weirgrpc, checked against a policy"},
	{"weirhttp", []string{".", "internal/answer", "internal/clientaddr", "internal/keyby", "internal/keyenc"}, "net/http around a Limiter; it works without files"},
	{"weirgrpc", []string{".", "internal/answer", "internal/clientaddr", "internal/keyby", "internal/shorten"}, "gRPC around a Limiter; it works without files and without our service"},
	{"internal/testkit/listentest", nil, "certificates for tests, from the standard library"},
	{"internal/listen", []string{"internal/clientaddr"}, "addresses, TLS and secrets, the same for every protocol"},
	{"internal/front/envoyconf", []string{".", "internal/keyenc", "internal/shorten", "internal/yamlnode", "policy"}, "the configuration of Envoy's reference service as rules; it makes no decisions"},
	{"internal/front/envoy", []string{".", "fallback", "internal/answer", "internal/front/envoyconf", "internal/listen", "internal/keyenc", "internal/observe", "internal/topkeys"}, "Envoy's rate limit service on any engine; independent of files and stores"},
	{"weirredis", []string{"."}, "decisions on Redis through one method, so that every client fits"},
	{"internal/testkit/redistest", []string{"internal/testkit/needs", "weirredis"}, "Redis servers for tests, and a connection without a client"},
	{"weirdisk", []string{"."}, "decisions in memory that survive a restart; it knows no policy file and no protocol"},
	{"internal/front/resp", []string{".", "internal/answer", "internal/listen"}, "the protocol of Redis; its callers define the policies"},
	{"internal/recorder", []string{".", "enforce", "internal/keyenc", "internal/observe", "replay"}, "a sample of live calls in files with a bound; it decides nothing and never makes a call wait"},
	{"internal/serving", []string{".", "enforce", "internal/answer", "internal/metrics", "internal/nearest", "internal/observe", "internal/recorder", "internal/topkeys", "policy", "weirhttp"}, "the policies in force with their counters, for every front"},
	{"internal/reserve", []string{".", "enforce", "fallback", "internal/keyenc", "internal/observe", "internal/serving"}, "reservations in sealed tokens, for HTTP and RESP"},
	{"internal/testkit/httpapitest", nil, "requests that every reader of the HTTP interface must reject"},
	{"internal/server/httpapi", []string{".", "enforce", "internal/answer", "internal/front/envoy", "internal/listen", "internal/nearest", "internal/observe", "internal/reserve", "internal/serving", "internal/strictjson", "internal/topkeys", "policy", "weirhttp"}, "the calls of HTTP; independent of listeners and flags"},
	{"internal/server", []string{".", "enforce", "fallback", "internal/front/envoy", "internal/front/envoyconf", "internal/front/resp", "internal/listen", "internal/metrics", "internal/observe", "internal/recorder", "internal/reserve", "internal/server/httpapi", "internal/serving", "internal/topkeys", "policy", "weirdisk"}, "the service of weir serve: configuration, listeners, reload and shutdown"},
	{"weirredis/rueidisconn", []string{"weirredis"}, "the client of our own program, linked only by its importers"},
	{"weirredis/goredisconn", []string{"weirredis"}, "the client that most Go programs use, linked only by its importers"},
	{"internal/testkit/redistest/enginetest", []string{"weirredis", "weirredis/rueidisconn"}, "the Redis engine for tests of packages above it"},
	{"weirredis/faulttest", nil, "tests only: servers that stop, freeze and lose data"},
	{"internal/store", []string{".", "internal/nearest", "internal/redact", "weirdisk", "weirredis", "weirredis/rueidisconn"}, "a store from the word or URL that an operator writes"},
	{"deploy", nil, "files that run weir elsewhere, and their tests"},
	{"scripts", nil, "commands of the Makefile, and their tests"},
	{"cmd/weir/internal/docstest", nil, "tests only: the schema, read by a validator of other authors"},
	{"integrations", nil, "snippets for proxies; it writes text and needs neither policies nor the server"},
	{"integrations/prometheus", nil, "tests only: alert rules and a dashboard, checked with Prometheus' own tool"},
	{"internal/report", []string{"internal/answer"}, "one HTML file from numbers; independent of logs and policies"},
	{"cmd/weir", []string{".", "accesslog", "fallback", "integrations", "internal/answer", "enforce", "internal/front/envoyconf", "internal/front/envoy", "internal/filewatch", "internal/listen", "internal/nearest", "internal/observe", "internal/otlp", "internal/recorder", "internal/testkit/policytest", "internal/redact", "internal/report", "internal/server", "internal/server/httpapi", "internal/store", "internal/topkeys", "policy", "replay", "suggest", "weirdisk", "weirredis"}, "flags in, exit code out"},
}

// A barrier is an import that is forbidden, in tests too. Both ends must exist: a barrier
// around a deleted package guards nothing.
type barrier struct{ from, to, why string }

var barriers = []barrier{
	{"internal/spec", module + "/internal/window", "shared code would be a shared bug"},
	{"internal/testkit/jsontest", module + "/internal/strictjson", "a reference that shares code shares its faults"},
	{"internal/window", "time", "the core has no clock: an instant is an int64 of microseconds"},
	{"internal/window", "sync", "the core has no lock: its caller holds one"},
	{"internal/window", "context", "the core never waits"},
	{".", "net/http", "a program that limits a queue need not link a web server"},
	{".", "log/slog", "a library returns errors and does not log"},
	{".", "time/tzdata", "the zone data is 450 KB; the program decides whether to carry it"},
	{"policy", "time/tzdata", "the zone data is 450 KB; the program decides whether to carry it"},
	{"policy", module + "/internal/server", "a policy file means the same with and without a service"},
}

// A dependency is a module of others: the directories that may import it, in programs or
// only in tests, and its benefit in one line.
type dependency struct {
	module          string
	programs, tests []string
	why             string
}

var dependencies = []dependency{
	{"github.com/spf13/cobra", []string{"cmd/weir"}, nil, "verbs, flags, help and shell completion"},
	{"github.com/spf13/pflag", []string{"cmd/weir"}, nil, "cobra's flags, for errors that name the wrong one"},
	{"github.com/klauspost/compress", []string{"accesslog"}, []string{"replay"}, "zstd, which the standard library does not have, for compressed access logs"},
	{"golang.org/x/net/http/httpguts", []string{"internal/otlp"}, nil, "which names and values of headers HTTP permits, as the exporter sends them"},
	{"golang.org/x/net/http2", nil, []string{"cmd/weir"}, "HTTP/2 frames and header compression, to attack the gRPC listener in tests"},
	{"golang.org/x/term", []string{"cmd/weir"}, nil, "detects the terminal of weir top and its height"},
	{"github.com/fsnotify/fsnotify", []string{"internal/filewatch"}, nil, "notifications of the operating system about changed files"},
	{"github.com/envoyproxy/go-control-plane/envoy", []string{"internal/front/envoy"}, []string{"cmd/weir", "docs", "integrations", "internal/server"},
		"the messages of Envoy's protocol, always those of its newest version"},
	{"github.com/prometheus/client_golang", []string{"internal/metrics"}, nil, "counters, histograms and their text format as Prometheus reads it, and the metrics of the process"},
	{"go.opentelemetry.io/otel", []string{"internal/otlp"}, nil, "spans with their sampling, batches and variables of the environment, as OpenTelemetry defines them"},
	{"go.opentelemetry.io/proto/otlp", nil, []string{"internal/otlp"}, "the messages of collectors, to read our spans"},
	{"google.golang.org/grpc", []string{"internal/front/envoy", "internal/server", "weirgrpc"}, []string{"cmd/weir", "docs"},
		"gRPC, the protocol of Envoy, with its health service"},
	{"google.golang.org/protobuf", []string{"internal/front/envoy", "weirgrpc"}, []string{"cmd/weir", "integrations", "internal/otlp", "internal/server"},
		"the messages' JSON form and the types all messages share"},
	{"github.com/go-json-experiment/json", []string{"accesslog", "internal/strictjson"}, nil, "JSON as strict as requests need it, without allocations"},
	{"go.yaml.in/yaml/v4", []string{"internal/yamlnode"}, []string{"deploy", "integrations"},
		"YAML as nodes with the place of every word, and errors with theirs"},
	{"github.com/redis/rueidis", []string{"examples/processes", "internal/testkit/redistest/enginetest", "internal/store", "weirredis/rueidisconn"}, []string{"internal/front/resp", "weirredis/faulttest"},
		"a Redis client that pipelines by itself, for single servers, Sentinels and Clusters"},
	{"github.com/redis/go-redis/v9", []string{"weirredis/goredisconn"}, []string{"docs", "internal/front/resp", "weirredis", "weirredis/faulttest"},
		"the Redis client that most Go programs use"},
	{"github.com/rogpeppe/go-internal", nil, []string{"cmd/weir"}, "tests of the program that read like a terminal"},
	{"google.golang.org/genproto/googleapis/rpc", []string{"weirgrpc"}, nil,
		"the status details that gRPC clients read: RetryInfo and QuotaFailure"},
	{"github.com/dunglas/httpsfv", nil, []string{"internal/server/httpapi"}, "another reader of structured fields, to read ours"},
	{"github.com/google/jsonschema-go", nil, []string{"internal/server/httpapi"}, "the words of JSON Schema as Go types, to write weir.schema.json with"},
	{"github.com/santhosh-tekuri/jsonschema", nil, []string{"cmd/weir/internal/docstest", "internal/server", "internal/server/httpapi"}, "a strict validator, to try weir.schema.json on files"},
}

// TestImportsFollowTheLayers compares the table of layers with the source files.
func TestImportsFollowTheLayers(t *testing.T) {
	found := readImports(t)
	above := map[string]bool{}
	for _, row := range layers {
		imports, ok := found[row.dir]
		if !ok {
			t.Errorf("layers: %s does not exist", row.dir)
		}
		for _, dir := range row.imports {
			if !above[dir] {
				t.Errorf("layers: %s may import %s, which is not above it", row.dir, dir)
			}
		}
		for _, imported := range imports.program {
			if to, ours := directory(imported); ours && !slices.Contains(row.imports, to) {
				t.Errorf("%s imports %s; it may import %q: %s", row.dir, to, row.imports, row.why)
			}
		}
		above[row.dir] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if !above[dir] && !isLeaf(dir) {
			t.Errorf("%s has no row in layers; add one with its imports and the reason", dir)
		}
	}
}

// isLeaf reports whether the directory holds programs and tests for readers. They may
// import any package, and no package imports them.
func isLeaf(dir string) bool {
	return dir == "docs" || strings.HasPrefix(dir, "examples/")
}

func TestBarriers(t *testing.T) {
	found := readImports(t)
	for _, b := range barriers {
		from, ok := found[b.from]
		if !ok {
			t.Errorf("barriers: %s does not exist", b.from)
		}
		to, ours := directory(b.to)
		if _, ok := found[to]; ours && !ok {
			t.Errorf("barriers: %s does not exist", to)
		}
		if slices.Contains(from.program, b.to) || slices.Contains(from.tests, b.to) {
			t.Errorf("%s imports %s: %s", b.from, b.to, b.why)
		}
	}
}

func TestDependencies(t *testing.T) {
	found := readImports(t)
	used := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		for _, imported := range found[dir].program {
			if d := dependencyOf(t, dir, imported); d != nil {
				used[d.module] = true
				if !slices.Contains(d.programs, dir) {
					t.Errorf("%s imports %s; programs in %q may", dir, imported, d.programs)
				}
			}
		}
		for _, imported := range found[dir].tests {
			if d := dependencyOf(t, dir, imported); d != nil {
				used[d.module] = true
				if !slices.Contains(d.tests, dir) && !slices.Contains(d.programs, dir) {
					t.Errorf("a test of %s imports %s; those of %q may", dir, imported, d.tests)
				}
			}
		}
	}
	for _, d := range dependencies {
		if !used[d.module] {
			t.Errorf("dependencies: %s is not imported any more; remove its row, and run go mod tidy", d.module)
		}
	}
}

// dependencyOf returns the row of an import that is neither ours nor of the
// standard library, and nil for the others.
func dependencyOf(t *testing.T, dir, imported string) *dependency {
	t.Helper()
	if _, ours := directory(imported); ours || isStandard(imported) {
		return nil
	}
	for i, d := range dependencies {
		if imported == d.module || strings.HasPrefix(imported, d.module+"/") {
			return &dependencies[i]
		}
	}
	t.Errorf("%s imports %s, which has no row in dependencies; add one with its benefit", dir, imported)
	return nil
}

// TestRootNeedsOnlyTheStandardLibrary uses the go command, which follows imports
// transitively.
func TestRootNeedsOnlyTheStandardLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list -deps .: %v", err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, module) {
		t.Fatalf("go list -deps . does not list %s itself: %q", module, packages)
	}
	for _, p := range packages {
		if _, ours := directory(p); !ours {
			t.Errorf("the root package needs %s; it needs the standard library only", p)
		}
	}
}

// imports are the import paths of one directory's files.
type imports struct{ program, tests []string }

// readImports reads every Go file of the module, by directory. Directories with
// a go.mod of their own, such as bench, are other modules.
func readImports(t *testing.T) map[string]imports {
	t.Helper()
	found := map[string]imports{}
	walkGoFiles(t, func(file string) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(filepath.ToSlash(file))
		all := found[dir]
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				all.tests = append(all.tests, imported)
			} else {
				all.program = append(all.program, imported)
			}
		}
		found[dir] = all
	})
	return found
}

// walkGoFiles calls visit with every Go file of the module, relative to its root.
func walkGoFiles(t *testing.T, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			if strings.HasSuffix(file, ".go") {
				visit(file)
			}
			return nil
		}
		_, err = os.Stat(filepath.Join(file, "go.mod"))
		hidden := strings.HasPrefix(entry.Name(), ".") && file != "."
		if file != "." && err == nil || hidden || entry.Name() == "testdata" {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// directory returns where in the module an import path lies.
func directory(importPath string) (dir string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// isStandard reports whether the import path belongs to the standard library: its first
// element has no dot.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
