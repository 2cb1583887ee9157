// Package tree has tests of the source tree as a whole: which packages import which, and the names and
// types that are public.
package tree

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

const module = "github.com/weirlimit/weir"

// The paths in these tests are those from the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// A layer is some packages, by their directories, with the packages of ours that their
// programs may import. Imports point one way: a row names only rows above it, and the word
// "row" permits packages that stand earlier in the row. A directory that ends in "..." stands
// for all below it.
type layer struct {
	dirs, imports []string
	why           string
}

var layers = []layer{
	{[]string{"internal/adversary", "internal/clientaddr", "internal/duration", "internal/filewatch", "internal/isnil", "internal/keyenc", "internal/lifetime", "internal/nearest", "internal/option", "internal/outagelog", "internal/policyfile", "internal/shorten"},
		nil, "small packages that know nothing of policies"},
	{[]string{"internal/window"}, nil, "arithmetic on histories, readable by any engine"},
	{[]string{"internal/keytable"},
		[]string{"internal/window"}, "histories by key, with locks, expiry and caps; independent of policies and clocks"},
	{[]string{"engine"},
		[]string{"internal/keyenc", "internal/shorten", "internal/window"}, "the contract between limiters and stores, with compiled rules"},
	{[]string{"internal/misuse", "internal/redisslot", "internal/rulecache"}, []string{"engine"}, "errors of zero engines; the slots of a Redis Cluster; what an engine made of rules, while they live"},
	{[]string{"internal/documents"}, []string{"engine", "internal/misuse"}, "the documents of engines of one process, and those inside wrappers"},
	{[]string{"internal/memory", "weirdisk", "weirredis"},
		[]string{"engine", "internal/documents", "internal/isnil", "internal/keyenc", "internal/keytable", "internal/misuse", "internal/option", "internal/redisslot", "internal/rulecache", "internal/window", "row"}, "engines; they know no limiters, no policy file and no protocol"},
	{[]string{"."},
		[]string{"engine", "internal/documents", "internal/isnil", "internal/keyenc", "internal/lifetime", "internal/memory", "internal/misuse", "internal/option", "internal/shorten", "internal/window"}, "every package imports it, so its dependencies would be those of every program"},
	{[]string{"weirredis/goredisconn", "weirredis/rueidisconn"},
		[]string{"engine", "internal/isnil", "weirredis"}, "clients of Redis, linked only by their importers"},
	{[]string{"fallback"},
		[]string{".", "engine", "internal/documents", "internal/isnil", "internal/memory", "internal/misuse", "internal/option", "internal/outagelog", "internal/rulecache", "internal/window"}, "decides while the store is slow or out; it works with every engine, so it imports no store"},
	{[]string{"internal/dims"}, []string{"."}, "the dimensions of limits that come from elsewhere"},
	{[]string{"internal/spec"}, []string{".", "engine"}, "the rules once more, naive: it shares the vocabulary and no arithmetic"},
	{[]string{"internal/conformance", "weirtest"},
		[]string{".", "engine", "internal/dims", "internal/isnil", "internal/misuse", "internal/option", "internal/spec", "row"}, "compares any engine with the specification"},
	{[]string{"internal/answer", "internal/fields", "internal/keyby", "internal/problemdoc"},
		[]string{".", "engine", "internal/isnil", "internal/lifetime", "internal/shorten", "internal/window", "row"}, "a decision as JSON, as a sentence and as header fields, problem documents, and the named key functions, the same for every front"},
	{[]string{"internal/yamlnode"}, []string{"internal/shorten"}, "YAML to nodes with their places; independent of their meaning"},
	{[]string{"policy"},
		[]string{".", "engine", "fallback", "internal/answer", "internal/clientaddr", "internal/dims", "internal/duration", "internal/nearest", "internal/policyfile", "internal/shorten", "internal/yamlnode"}, "files to policies; it makes no decisions"},
	{[]string{"internal/definition"},
		[]string{"internal/clientaddr", "internal/shorten", "policy"}, "what is closed, expired or probably a mistake in a policy of a file"},
	{[]string{"internal/enforce", "enforce"},
		[]string{".", "engine", "internal/answer", "internal/clientaddr", "internal/definition", "internal/documents", "internal/filewatch", "internal/isnil", "internal/keyenc", "internal/misuse", "internal/nearest", "internal/policyfile", "policy", "row"}, "the policies of a file at work, the same for every front and for library users"},
	{[]string{"weirgrpc", "weirhttp"},
		[]string{".", "engine", "internal/answer", "internal/clientaddr", "internal/fields", "internal/keyby", "internal/option", "internal/outagelog", "internal/problemdoc", "internal/shorten"}, "gRPC and net/http around a Limiter; they work without files and without our service"},
	{[]string{"internal/testkit/assert", "internal/testkit/httpapitest", "internal/testkit/jsontest", "internal/testkit/listentest", "internal/testkit/markdown", "internal/testkit/memstats", "internal/testkit/must", "internal/testkit/mutants", "internal/testkit/needs", "internal/testkit/race", "internal/testkit/tree", "internal/testkit/txtar"},
		nil, "helpers of tests; a reference must not share code with its subject"},
	{[]string{"internal/testkit/documenttest", "internal/testkit/program", "internal/testkit/redistest", "internal/testkit/runtests"},
		[]string{"engine", "internal/testkit/listentest", "internal/testkit/needs", "weirredis", "weirtest"}, "programs and servers for tests"},
	{[]string{"internal/testkit/policytest"},
		[]string{".", "engine", "internal/answer", "internal/duration", "internal/enforce", "policy"}, "runs the tests of a policy file; its callers print the results"},
	{[]string{"cmd/weir/internal/testkit/enginetest"},
		[]string{"weirredis", "weirredis/rueidisconn"}, "the Redis engine for tests of packages above it"},
	{[]string{"cmd/weir/internal/look"},
		nil, "a style and a script; there is nothing to import"},
	{[]string{"cmd/weir/internal/integrations", "cmd/weir/internal/listen", "cmd/weir/internal/observe", "cmd/weir/internal/page", "cmd/weir/internal/redact", "cmd/weir/internal/report", "cmd/weir/internal/strictjson", "cmd/weir/internal/systemd", "cmd/weir/internal/topkeys"},
		[]string{".", "engine", "cmd/weir/internal/look", "internal/answer", "internal/clientaddr", "internal/shorten"}, "parts of the program that know no policies"},
	{[]string{"cmd/weir/internal/audit"},
		[]string{"cmd/weir/internal/redact", "internal/adversary", "internal/duration", "internal/shorten"}, "the adversary of the scoreboard against a service or a program; it knows no policies"},
	{[]string{"cmd/weir/internal/metrics", "cmd/weir/internal/otlp"},
		[]string{"cmd/weir/internal/observe", "cmd/weir/internal/redact", "internal/shorten"}, "metrics and spans; they make no decisions"},
	{[]string{"cmd/weir/internal/logs/accesslog", "cmd/weir/internal/logs/replay", "cmd/weir/internal/logs/suggest"},
		[]string{".", "engine", "cmd/weir/internal/strictjson", "internal/answer", "internal/clientaddr", "internal/duration", "internal/enforce", "internal/keyenc", "internal/shorten", "policy", "row"}, "access logs and traces in virtual time; they serve nothing"},
	{[]string{"cmd/weir/internal/recorder"},
		[]string{".", "engine", "cmd/weir/internal/logs/accesslog", "cmd/weir/internal/logs/replay", "cmd/weir/internal/observe", "internal/clientaddr", "internal/enforce", "internal/keyenc"}, "a sample of live calls in files with a bound; it decides nothing and never makes a call wait"},
	{[]string{"cmd/weir/internal/calls"},
		[]string{".", "engine", "cmd/weir/internal/metrics", "cmd/weir/internal/observe", "cmd/weir/internal/recorder", "cmd/weir/internal/topkeys", "internal/answer", "internal/definition", "internal/enforce", "internal/fields", "internal/nearest"}, "observes the calls of every front; it makes no decisions"},
	{[]string{"cmd/weir/internal/inline"},
		[]string{".", "engine", "cmd/weir/internal/calls", "internal/answer", "internal/enforce", "internal/keyenc", "policy"}, "policies that calls carry, for every front"},
	{[]string{"cmd/weir/internal/reserve"},
		[]string{".", "engine", "cmd/weir/internal/calls", "cmd/weir/internal/inline", "cmd/weir/internal/observe", "internal/answer", "internal/enforce", "internal/keyenc"}, "reservations by their names, for every front"},
	{[]string{"cmd/weir/internal/front/envoyconf", "cmd/weir/internal/front/envoy"},
		[]string{".", "engine", "cmd/weir/internal/calls", "cmd/weir/internal/listen", "cmd/weir/internal/observe", "cmd/weir/internal/topkeys", "fallback", "internal/answer", "internal/enforce", "internal/keyenc", "internal/policyfile", "internal/shorten", "internal/yamlnode", "policy", "row"}, "the protocol of Envoy on any engine; independent of stores"},
	{[]string{"cmd/weir/internal/front/resp"},
		[]string{".", "engine", "cmd/weir/internal/calls", "cmd/weir/internal/inline", "cmd/weir/internal/listen", "cmd/weir/internal/observe", "cmd/weir/internal/reserve", "internal/answer", "internal/enforce", "internal/nearest"}, "the protocol of Redis clients; independent of listeners and flags"},
	{[]string{"cmd/weir/internal/server/httpapi"},
		[]string{".", "engine", "cmd/weir/internal/calls", "cmd/weir/internal/front/envoy", "cmd/weir/internal/inline", "cmd/weir/internal/listen", "cmd/weir/internal/metrics", "cmd/weir/internal/observe", "cmd/weir/internal/page", "cmd/weir/internal/reserve", "cmd/weir/internal/strictjson", "cmd/weir/internal/topkeys", "internal/answer", "internal/clientaddr", "internal/definition", "internal/enforce", "internal/fields", "internal/nearest", "internal/problemdoc", "policy", "weirhttp"}, "the calls of HTTP; independent of listeners and flags"},
	{[]string{"cmd/weir/internal/server"},
		[]string{".", "engine", "cmd/weir/internal/calls", "cmd/weir/internal/front/...", "cmd/weir/internal/inline", "cmd/weir/internal/listen", "cmd/weir/internal/metrics", "cmd/weir/internal/observe", "cmd/weir/internal/recorder", "cmd/weir/internal/reserve", "cmd/weir/internal/server/httpapi", "cmd/weir/internal/topkeys", "fallback", "internal/definition", "internal/documents", "internal/enforce", "policy", "weirdisk"}, "the service of weir serve: configuration, listeners, reload and shutdown"},
	{[]string{"cmd/weir/internal/store"},
		[]string{".", "engine", "cmd/weir/internal/redact", "internal/documents", "internal/nearest", "weirdisk", "weirredis", "weirredis/rueidisconn"}, "a store from the word or URL that an operator writes"},
	{[]string{"cmd/weir"}, []string{"..."}, "flags in, exit code out"},
	{[]string{"clients/...", "deploy", "release", "scripts", "examples/...", "cmd/weir/internal/docsrun", "cmd/weir/internal/docstest", "cmd/weir/internal/faulttest", "cmd/weir/internal/integrations/prometheus"},
		[]string{"..."}, "tests, and programs for readers; no package imports them"},
}

// A barrier is an import that is forbidden, in tests too. A package of the standard library is
// forbidden in the programs of imported packages as well. Both ends must exist: a barrier around a
// deleted package guards nothing.
type barrier struct{ from, to, why string }

var barriers = []barrier{
	{"internal/spec", module + "/internal/window", "shared code would be a shared bug"},
	{"internal/testkit/jsontest", module + "/cmd/weir/internal/strictjson", "a reference that shares code shares its faults"},
	{"internal/window", "time", "the core has no clock: an instant is an int64 of microseconds"},
	{"internal/window", "sync", "the core has no lock: its caller holds one"},
	{"internal/window", "context", "the core never waits"},
	{".", "net/http", "a program that limits a queue need not link a web server"},
	{".", "log/slog", "a library returns errors and does not log"},
	{".", "time/tzdata", "the zone data is 450 KB; the program decides whether to carry it"},
	{"policy", "time/tzdata", "the zone data is 450 KB; the program decides whether to carry it"},
	{"policy", module + "/cmd/weir/internal/server", "a policy file means the same with and without a service"},
}

// TestImportsFollowTheLayers compares the table of layers with the source files.
func TestImportsFollowTheLayers(t *testing.T) {
	found := readImports()
	var above []string
	for _, row := range layers {
		for _, pattern := range row.imports {
			if pattern != "row" && !slices.ContainsFunc(above, func(dir string) bool { return within(pattern, dir) }) {
				t.Errorf("layers: %q may import %s, which is not above them", row.dirs, pattern)
			}
		}
		higher := len(above)
		for _, pattern := range row.dirs {
			n := len(above)
			for _, dir := range slices.Sorted(maps.Keys(found)) {
				if within(pattern, dir) && !slices.Contains(above, dir) {
					above = append(above, dir)
				}
			}
			if len(above) == n {
				t.Errorf("layers: %s does not exist", pattern)
			}
			for _, dir := range above[n:] {
				for _, imported := range found[dir].program {
					to, ours := directory(imported)
					inRow := slices.Contains(row.imports, "row") && slices.Contains(above[higher:n], to)
					permitted := func(pattern string) bool { return within(pattern, to) && slices.Contains(above[:higher], to) }
					if ours && !inRow && !slices.ContainsFunc(row.imports, permitted) {
						t.Errorf("%s imports %s; it may import %q: %s", dir, to, row.imports, row.why)
					}
				}
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(above, dir) {
			t.Errorf("%s is in no row of layers; add it with its imports and the reason", dir)
		}
	}
}

// TestPackagesOfTheProgramAreBelowIt: a package that only the program imports is below
// cmd/weir/internal. Helpers of tests, and what users or benchmarks import, may stand elsewhere.
func TestPackagesOfTheProgramAreBelowIt(t *testing.T) {
	importers := map[string][]string{}
	for _, imported := range benchImports(t) {
		if to, ours := directory(imported); ours {
			importers[to] = append(importers[to], "bench")
		}
	}
	for from, all := range readImports() {
		for _, imported := range all.program {
			if to, ours := directory(imported); ours {
				importers[to] = append(importers[to], from)
			}
		}
	}
	isOfProgram := func(dir string) bool { return within("cmd/...", dir) }
	for dir := range readImports() {
		isOfLibrary := within("internal/...", dir) && !within("internal/testkit/...", dir)
		if isOfLibrary && !slices.ContainsFunc(importers[dir], func(from string) bool { return !isOfProgram(from) }) {
			t.Errorf("%s is imported by the program only; move it below cmd/weir/internal", dir)
		}
	}
}

// benchImports returns the imports of the programs of benchmarks, which sources leaves out.
func benchImports(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("bench", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			all = append(all, strings.Trim(spec.Path.Value, `"`))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// within reports whether the pattern of a row stands for the directory.
func within(pattern, dir string) bool {
	if prefix, all := strings.CutSuffix(pattern, "..."); all {
		return strings.HasPrefix(dir, prefix) || prefix == ""
	}
	return pattern == dir
}

func TestBarriers(t *testing.T) {
	found := readImports()
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
		for _, dir := range reached(found, b.from) {
			if !ours && slices.Contains(found[dir].program, b.to) {
				t.Errorf("%s imports %s through %s: %s", b.from, b.to, dir, b.why)
			}
		}
	}
}

// reached returns the directories whose packages a program links with that of from.
func reached(found map[string]imports, from string) []string {
	all := []string{from}
	for i := 0; i < len(all); i++ {
		for _, imported := range found[all[i]].program {
			if to, ours := directory(imported); ours && !slices.Contains(all, to) {
				all = append(all, to)
			}
		}
	}
	return all[1:]
}

// TestLibraryNeedsOnlyTheStandardLibrary: a program that limits HTTP requests links no code of
// other modules. The go command follows imports transitively.
func TestLibraryNeedsOnlyTheStandardLibrary(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".", "./weirhttp").Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, module+"/weirhttp") {
		t.Fatalf("go list -deps does not list weirhttp itself: %q", packages)
	}
	for _, p := range packages {
		if _, ours := directory(p); !ours {
			t.Errorf("the library needs %s; it needs the standard library only", p)
		}
	}
}

// source is a parsed Go file of the modules.
type source struct {
	dir  string // of the package, with slashes
	test bool
	file *ast.File
}

var files = token.NewFileSet()

// sources parses every Go file of the modules once. Benchmarks and tests in a browser are left
// out.
var sources = sync.OnceValue(func() (all []source) {
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch hidden := strings.HasPrefix(entry.Name(), ".") && name != "."; {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || name == "bench" || slices.Contains([]string{"browsertest", "node_modules", "testdata"}, entry.Name())):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		all = append(all, source{path.Dir(filepath.ToSlash(name)), strings.HasSuffix(name, "_test.go"), file})
		return err
	})
	if err != nil {
		panic(err)
	}
	return all
})

// programs returns the files that are no tests, by directory.
func programs() map[string][]*ast.File {
	found := map[string][]*ast.File{}
	for _, s := range sources() {
		if !s.test {
			found[s.dir] = append(found[s.dir], s.file)
		}
	}
	return found
}

// imports are the import paths of one directory's files.
type imports struct{ program, tests []string }

func readImports() map[string]imports {
	found := map[string]imports{}
	for _, s := range sources() {
		all := found[s.dir]
		for _, spec := range s.file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if s.test {
				all.tests = append(all.tests, imported)
			} else {
				all.program = append(all.program, imported)
			}
		}
		found[s.dir] = all
	}
	return found
}

// directory returns where in the module an import path lies.
func directory(importPath string) (dir string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// kindNamers are the packages outside the engines that name a kind, with the reason. A new
// kind changes these and the engines only.
var kindNamers = map[string]string{
	".":                    "the vocabulary, and the checks of a policy's fields",
	"examples/twice":       "compares rolling with fixed windows",
	"internal/answer":      "kind.go: the words of kinds, and the numbers that only fronts need",
	"internal/conformance": "draws limits of every kind",
	"internal/spec":        "the rules once more, without shared code",
	"policy":               "kinds in the words of a policy file",
}

// engines name kinds because each kind is stored in its own way.
var engines = []string{"engine", "examples/engine", "internal/memory", "weirdisk", "weirredis"}

// TestFewPackagesNameAKind finds uses of the constants of type Kind in programs. A use in
// internal/answer outside kind.go is a mistake too.
func TestFewPackagesNameAKind(t *testing.T) {
	found := map[string]bool{}
	for dir, all := range programs() {
		if slices.Contains(engines, dir) {
			continue
		}
		for _, file := range all {
			uses := kindUses(dir, file)
			found[dir] = found[dir] || len(uses) > 0
			for _, place := range uses {
				if kindNamers[dir] == "" {
					t.Errorf("%s names a kind; use a function of internal/answer/kind.go, or a field of the limit or its state", place)
				}
				if dir == "internal/answer" && filepath.Base(place.Filename) != "kind.go" {
					t.Errorf("%s names a kind; move the words to kind.go", place)
				}
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(kindNamers)) {
		if !found[dir] {
			t.Errorf("kindNamers: %s names no kind", dir)
		}
	}
}

// kindUses returns the places of a file that name a kind of package weir or engine.
func kindUses(dir string, file *ast.File) (places []token.Position) {
	from := map[string]bool{} // names of the two packages in this file
	for _, spec := range file.Imports {
		if imported := strings.Trim(spec.Path.Value, `"`); imported != module && imported != module+"/engine" {
			continue
		} else if spec.Name != nil {
			from[spec.Name.Name] = true
		} else {
			from[path.Base(imported)] = true
		}
	}
	kinds := []string{"KindRolling", "KindFixed", "KindFixedFromFirst", "KindBucket", "KindConcurrency"}
	ast.Inspect(file, func(n ast.Node) bool {
		name := ""
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && from[x.Name] {
				name = n.Sel.Name
			}
		case *ast.Ident:
			if dir == "." {
				name = n.Name
			}
		}
		if slices.Contains(kinds, name) {
			places = append(places, files.Position(n.Pos()))
		}
		return true
	})
	return places
}

// requirement is a line of a go.mod file: a module path, its version and a comment.
var requirement = regexp.MustCompile(`(?m)^(?:require|\t)\s*([\w./-]+\.[\w./-]+) (v\S+)(?: // (.+))?$`)

// TestGoListChangesNoSums: go.work.sum is complete, so a go command in a fresh clone leaves the work
// tree clean.
func TestGoListChangesNoSums(t *testing.T) {
	needs.Time(t)
	dir := t.TempDir()
	copied := []string{"go.work", "go.work.sum"}
	for _, use := range regexp.MustCompile(`(?m)^\t(\S+)$`).FindAllStringSubmatch(read(t, "go.work"), -1) {
		copied = append(copied, path.Join(use[1], "go.mod"), path.Join(use[1], "go.sum"))
	}
	for _, name := range copied {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && path.Base(name) == "go.sum" {
			continue // a module without dependencies
		}
		copied := filepath.Join(dir, name)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(copied), 0o755), os.WriteFile(copied, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "all")
	list.Dir, list.Stderr = dir, os.Stderr
	list.Env = append(os.Environ(), "PWD="+dir, "GOWORK=")
	if err := list.Run(); err != nil {
		needs.Have(t, "modules", false, "go list -m all finds no module proxy: "+err.Error())
	}
	if got, want := read(t, filepath.Join(dir, "go.work.sum")), read(t, "go.work.sum"); got != want {
		t.Errorf("go list -m all changes go.work.sum from %d to %d bytes; run it here and commit the file", len(want), len(got))
	}
}

// TestModules compares the go.mod files that go.work lists. The versions of a module agree,
// and each direct requirement has its benefit in a comment; benchmarks need none.
func TestModules(t *testing.T) {
	work := read(t, "go.work")
	versions := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(work, -1) {
		file := filepath.Join(match[1], "go.mod")
		var direct []string
		for _, r := range requirement.FindAllStringSubmatch(read(t, file), -1) {
			path, version, comment := r[1], r[2], r[3]
			if first := versions[path]; first != "" && first != version {
				t.Errorf("%s requires %s %s, another module %s; run go work sync and go mod tidy", file, path, version, first)
			}
			versions[path] = version
			if comment == "indirect" {
				continue
			}
			direct = append(direct, path)
			if comment == "" && !strings.HasPrefix(path, module) && match[1] != "./bench" {
				t.Errorf("%s: %s has no comment with its benefit", file, path)
			}
		}
		if want := []string{"go.yaml.in/yaml/v4"}; match[1] == "." && !slices.Equal(direct, want) {
			t.Errorf("the root module requires %q, want %q", direct, want)
		}
	}
	if len(versions) < 50 {
		t.Errorf("only %d requirements were read", len(versions))
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
