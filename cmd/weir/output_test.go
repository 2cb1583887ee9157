package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// Escape sequences, marks of writing direction and invalid UTF-8 in file names,
// arguments and keys are escaped in all output.
func TestOutputIsEscaped(t *testing.T) {
	const evil = "a\x1b]0;x\x07\x1b[31m\u202e\u009b\u2066\xff"
	dir := t.TempDir()
	good := filepath.Join(dir, "weir.yaml")
	named := filepath.Join(dir, evil+".yaml")
	log := filepath.Join(dir, evil+".log")
	domains, broken := filepath.Join(dir, "of envoy "+evil+".yaml"), filepath.Join(dir, "broken.yaml")
	for path, text := range map[string]string{
		good:                          onlySearch,
		named:                         "version: 1\npolicies:\n  search:\n    limit: 5 per minute per ip\n    tests:\n      - at 0s: 5 for ip=1\n",
		domains:                       "domain: \"a\\u202e\\u009b\"\ndescriptors:\n  - key: k\n    rate_limit: {unit: hour, requests_per_unit: 1, shadow_mode: true}\n",
		broken:                        "domain: a\ndescriptors:\n  - key: k\n    rate_limit: {unit: \"a\\u202e\\u009b\", requests_per_unit: 1}\n",
		log:                           "192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n",
		filepath.Join(dir, "t.jsonl"): "{\"at_us\":1,\"policy\":\"search\",\"key\":{\"ip\":\"\\u001b\\u202e\"}}\n{\"at_us\":1,\"policy\":\"" + evil + "\"}\n",
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, args := range [][]string{
		{evil}, {"help", evil}, {"validate", evil}, {"validate", named}, {"validate", "--json", named}, {"validate", "--json", evil},
		{"validate", "--envoy", domains}, {"validate", "--envoy", "--json", domains}, {"validate", "--envoy", "--json", broken},
		{"test", named}, {"test", "--json", named}, {"check", "--" + evil},
		{"check", "--policies", good, "search", "ip=" + evil}, {"check", "--policies", good, "--json", "search", "ip=" + evil},
		{"check", "--policies", good, evil, "ip=1"}, {"check", "--policies", good, "search", evil + "=1"}, {"check", "--policies", evil, "search", "ip=1"},
		{"check", "--policies", good, "--store", "redis://" + evil, "search", "ip=1"}, {"check", "--policies", good, "-n", evil, "search", "ip=1"},
		{"replay", "--policies", good, filepath.Join(dir, "t.jsonl")}, {"replay", "--policies", good, evil},
		{"replay", "--policies", good, "--key", "ip=remote_addr", log}, {"replay", "--policies", good, "--against", good, "--key", "ip=remote_addr", log},
		{"suggest", "--key", "ip=remote_addr", log}, {"suggest", "--key", "ip=remote_addr", "--write", filepath.Join(dir, evil), log},
		{"config", "check", evil}, {"serve", "--config", evil}, {"serve", "--listen", evil}, {"serve", "--token-file", evil}, {"serve", "--tls-cert", evil, "--tls-key", evil}, {"serve", "--envoy-config", evil},
		{"serve", "--host", evil}, {"serve", "--otlp-endpoint", evil}, {"top", "--once", "--url", evil}, {"snippet", evil}, {"snippet", "nginx", "--policy", evil},
	} {
		_, stdout, stderr := runWeir(args...)
		if stdout+stderr == "" || !printed(stdout+"\n"+stderr) {
			t.Errorf("weir %q prints %q, %q", args, stdout, stderr)
		}
	}
}

// printed reports whether text has only printable characters.
func printed(text string) bool {
	return strings.ToValidUTF8(text, "\x00") == text && strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) < 0
}

// Answers of another server are escaped, too.
func TestAnswersOfServersAreEscaped(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{\"ready\":true,\"top\":[{\"policy\":\"a\u202e\",\"key\":{\"a\u009b\":\"\u2066\x7f\"},\"denials\":1}],\"policies\":[{\"policy\":\"a\u202e\"}]}\n")
	}))
	defer stranger.Close()
	for _, args := range [][]string{{"top", "--once"}, {"top", "--once", "--json"}, {"ready", "--json"}} {
		if _, stdout, stderr := runWeir(append(args, "--url", stranger.URL)...); stdout == "" || !printed(stdout+"\n"+stderr) {
			t.Errorf("weir %q prints %q, %q", args, stdout, stderr)
		}
	}
}
