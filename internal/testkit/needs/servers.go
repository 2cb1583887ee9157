package needs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A Server is a version of Redis or Valkey. It is the redis-server or valkey-server of PATH
// if that has the version, or else the program that scripts/tools has put into the user's
// cache.
type Server struct{ name string }

// Servers are the servers of tests that depend on the server's version. scripts/tools installs
// the same ones.
var Servers = []Server{{"redis-7.0"}, {"redis-8.0"}, {"valkey-8.1"}}

// ServerVariable is the environment variable with the name of a server, such as valkey-8.1. All
// tests that need no certain version then run on that server.
const ServerVariable = "WEIR_TEST_SERVER"

// Redis declares a server of any version and returns its path: the one that the environment
// names, or else redis-server of PATH.
func Redis(t testing.TB) (path string) {
	t.Helper()
	name := os.Getenv(ServerVariable)
	if name == "" {
		return Program(t, "redis-server")
	}
	for _, s := range Servers {
		if s.name == name {
			return s.Path(t)
		}
	}
	t.Fatalf("%s=%s is none of the servers %v", ServerVariable, name, Servers)
	return ""
}

// String returns the name, such as redis-8.0.
func (s Server) String() string { return s.name }

// Path declares the server and returns the path of its program.
func (s Server) Path(t testing.TB) string {
	t.Helper()
	declare(t, s.name)
	kind, version, _ := strings.Cut(s.name, "-")
	program := kind + "-server"
	files := []string{program}
	if cache, err := os.UserCacheDir(); err == nil {
		files = append(files, filepath.Join(cache, "weir-tools", s.name, program))
	}
	for _, file := range files {
		path, err := exec.LookPath(file)
		if err == nil && strings.HasPrefix(versionOf(path), version+".") {
			return path
		}
	}
	missing(t, s.name+" is not installed; run `make tools`")
	return ""
}

var versions sync.Map // the version, such as 7.0.15, by the path of a program

// versionOf returns the version that a server prints, or "" if it does not run.
func versionOf(path string) string {
	if v, ok := versions.Load(path); ok {
		return v.(string)
	}
	out, _ := exec.Command(path, "--version").Output() // "Redis server v=7.0.15 sha=…"
	_, version, _ := bytes.Cut(out, []byte(" v="))
	text := ""
	fmt.Sscan(string(version), &text) // without a version it stays ""
	versions.Store(path, text)
	return text
}
