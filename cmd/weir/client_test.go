package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// writeTexts writes files into a directory of the test and returns their paths.
func writeTexts(t *testing.T, texts map[string]string) map[string]string {
	t.Helper()
	dir, paths := t.TempDir(), map[string]string{}
	for name, text := range texts {
		paths[name] = filepath.Join(dir, name)
		must.Do(t, os.WriteFile(paths[name], []byte(text), 0o600))
	}
	return paths
}

// TestClientOverTLS: with --ca every verb connects over TLS. Without --ca the message names the
// problem.
func TestClientOverTLS(t *testing.T) {
	authority := listentest.NewAuthority(t)
	pair, other := authority.Issue(t, "127.0.0.1"), listentest.NewAuthority(t)
	files := writeTexts(t, map[string]string{"cert": pair.Cert, "key": pair.Key, "ca": authority.PEM, "other": other.PEM, "token": "the-token-of-all-in-a-test",
		"weir.yaml": "version: 1\npolicies: {search: {limit: 2 per minute per ip}}\n"})
	p := startServe(t, "--policies", files["weir.yaml"], "--tls-cert", files["cert"], "--tls-key", files["key"], "--token-file", files["token"])
	address := listensOn.FindStringSubmatch(p.Output())[1]
	plain := strings.Replace(address, "https:", "http:", 1)
	for _, c := range []struct {
		verb  string
		url   string
		flags []string
		code  int
		words []string // parts of the output or the message
	}{
		{"ready", address, []string{"--ca", files["ca"]}, exitOK, []string{"ready\n"}},
		{"top --once", address, []string{"--ca", files["ca"], "--token-file", files["token"]}, exitOK, []string{"weir at " + address}},
		{"check search ip=a", address, []string{"--ca", files["ca"], "--token-file", files["token"]}, exitOK, []string{"allowed: 1 of 2 used", "by weir at " + address}},
		{"check search ip=a", address, nil, exitStore, []string{address + " does not answer: ", "unknown authority", "by --ca FILE"}},
		{"ready", address, []string{"--ca", files["other"]}, exitDenied, []string{address + " does not answer: ", "unknown authority", "by --ca FILE"}},
		{"peek search ip=a", strings.Replace(address, "127.0.0.1", "localhost", 1), []string{"--ca", files["ca"]}, exitStore, []string{"does not answer: ", "localhost", "write the host that its certificate names"}},
		{"check search ip=a", plain, nil, exitUsage, []string{plain + " answers 400 Bad Request: it speaks TLS", "write --url " + address}},
		{"top --once", address, []string{"--ca", files["key"]}, exitUsage, []string{"--ca: " + files["key"] + " holds no PEM certificate", "name the PEM file"}},
		{"top --once", address, []string{"--ca", "nope"}, exitUsage, []string{"--ca: open nope: no such file", "name the PEM file"}},
	} {
		args := append(append(strings.Fields(c.verb), "--url", c.url), c.flags...)
		code, stdout, stderr := runWeir(args...)
		wantWords(t, args, code, stdout+stderr, c.code, c.words)
	}
}

// wantWords checks the exit code of a command line, and that its output contains words.
func wantWords(t *testing.T, args []string, code int, text string, want int, words []string) {
	t.Helper()
	if code != want {
		t.Errorf("weir %q: exit code %d, want %d; it said\n%s", args, code, want, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("weir %q: got\n%swant %q in it", args, text, word)
		}
	}
}

// TestURLHintCompletesTheAddress: the next step repeats the given address, and adds the missing
// parts.
func TestURLHintCompletesTheAddress(t *testing.T) {
	const general = "http://127.0.0.1:7070 or --url unix:/run/weir.sock"
	for text, want := range map[string]string{
		"127.0.0.1:17070":      "http://127.0.0.1:17070",
		"localhost:8080/":      "http://localhost:8080/",
		"[::1]:17070":          "http://[::1]:17070",
		"weir.example":         "http://weir.example:7070",
		"/run/weir/api.sock":   "unix:/run/weir/api.sock",
		"ops:s3cret@weir:7070": general,
		"ftp://weir:7070":      general,
		"weir:7070?token=a":    general,
		":7070":                general,
		"":                     general,
	} {
		code, _, stderr := runWeir("check", "search", "ip=a", "--url", text)
		if text != "" && (code != exitUsage || !strings.HasSuffix(stderr, "\n  write --url "+want+"\n")) {
			t.Errorf("--url %s: exit %d, %q, want %q", text, code, stderr, want)
		}
		if got := urlHint(text); got != "write --url "+want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestClientOfOtherServers: if another program answers, each verb names its address, its answer
// and the next step.
func TestClientOfOtherServers(t *testing.T) {
	web := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	page := web(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>hello") })
	missing := web(http.NotFound)
	moved := web(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://ops:s3cret@example.org/", http.StatusMovedPermanently)
	})
	away := web(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "<html>gone", http.StatusBadGateway) })
	full := web(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(503)
		io.WriteString(w, `{"detail":"no decision: the store is unavailable"}`)
	})
	redis := "http://" + listentest.Serve(t, func(c net.Conn) { io.WriteString(c, "-ERR unknown command\r\n") })
	closes := "http://" + listentest.Serve(t, func(net.Conn) {})
	const noName = "http://nosuch..invalid" // no server of names is asked, which may be slow or away
	for _, verb := range []string{"check search ip=a", "peek search ip=a", "reset search ip=a", "block search ip=a --for 1m", "top --once"} {
		for _, c := range []struct {
			url   string
			code  int
			words []string
		}{
			{page, exitUsage, []string{page + " is not a weir: its answer to ", "is malformed", "is --url the address of "}},
			{missing, exitUsage, []string{missing + " is not a weir: it answers 404 Not Found to ", "without a reason", "is --url the address of "}},
			{moved, exitUsage, []string{moved + " answers 301 Moved Permanently: it refers to \"…@example.org/\"", "write the address of weir itself by --url"}},
			{away, exitStore, []string{away + " answers 502 Bad Gateway: it gives no reason", "see its log"}},
			{full, exitStore, []string{full + " answers 503 Service Unavailable: no decision: the store is unavailable", "store_down of its /readyz"}},
			{redis, exitStore, []string{redis + " does not answer: ", "something else than HTTP listens there; is --url the address of --listen?"}},
			{closes, exitStore, []string{closes + " does not answer: ", "does weir serve run there?"}},
			{strings.Replace(page, "http:", "https:", 1), exitStore, []string{" does not answer: ", "it does not speak TLS; write --url " + page}},
			{"unix:/nowhere/weir.sock", exitStore, []string{"unix:/nowhere/weir.sock does not answer: ", "no such file or directory", "does weir serve run there?"}},
			{noName, exitStore, []string{noName + " does not answer: ", "lookup nosuch..invalid", "is the host's name right?"}},
		} {
			args := append(strings.Fields(verb), "--url", c.url)
			code, stdout, stderr := runWeir(args...)
			if stdout != "" || strings.Contains(stderr, "s3cret") {
				t.Errorf("weir %q: got output %q, message %q", args, stdout, stderr)
			}
			wantWords(t, args, code, stderr, c.code, c.words)
		}
	}
}

// TestReset sends the key and the limits, and lists what was reset and what was kept.
func TestReset(t *testing.T) {
	var request, token string
	answer := `{"reset":["user","burst"],"kept":["all"]}`
	weir := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, token = r.Method+" "+r.URL.String(), r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer+"\n")
	}))
	defer weir.Close()
	t.Setenv("WEIR_ADMIN_TOKEN", "the-token-of-operators-in-a-test")
	code, stdout, stderr := runWeir("reset", "api", "tenant=bob & söhne", "user=", "--limit", "user", "--limit", "burst", "--url", weir.URL)
	if want := "DELETE /v1/keys/api?limit=user&limit=burst&tenant=bob+%26+s%C3%B6hne&user="; request != want || token != "Bearer the-token-of-operators-in-a-test" {
		t.Errorf("got %s with %q\nwant %s", request, token, want)
	}
	if want := "reset: user, burst of tenant=bob & söhne user=\nkept: all\n"; code != exitOK || stdout != want {
		t.Errorf("exit %d, %s; got\n%swant\n%s", code, stderr, stdout, want)
	}
	if code, stdout, _ := runWeir("reset", "api", "tenant=bob", "--url", weir.URL, "--json"); code != exitOK || stdout != answer+"\n" {
		t.Errorf("exit %d, got %s", code, stdout)
	}
	answer = `{"reset":[],"kept":["all"]}`
	if _, stdout, _ := runWeir("reset", "api", "--url", weir.URL); stdout != "reset: none\nkept: all\n  a limit that counts other callers too is reset only by --limit NAME\n" {
		t.Errorf("got %s", stdout)
	}
	answer = `{}`
	if code, _, stderr := runWeir("reset", "api", "--url", weir.URL); code != exitUsage || !strings.Contains(stderr, "is not a weir of this version") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if code, _, stderr := runWeir("reset", "api", "limit=user", "--url", weir.URL); code != exitUsage || !strings.Contains(stderr, "name limits by --limit NAME") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// TestBlock sends the key, the time and the limits, and lists the limits and the end.
func TestBlock(t *testing.T) {
	var request, token string
	answer := `{"policy":"api","limits":["user","burst"],"blocked_until":"2026-11-20T13:07:31.000005Z"}`
	weir := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request, token = r.Method+" "+r.URL.String()+" "+string(body), r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer+"\n")
	}))
	defer weir.Close()
	t.Setenv("WEIR_ADMIN_TOKEN", "the-token-of-operators-in-a-test")
	code, stdout, stderr := runWeir("block", "api", "tenant=a", "user=b", "--for", "1h30m", "--limit", "user", "--limit", "burst", "--url", weir.URL)
	if want := `POST /v1/block {"policy":"api","key":{"tenant":"a","user":"b"},"for_ms":5400000,"limit_names":["user","burst"]}`; strings.TrimSpace(request) != want || token != "Bearer the-token-of-operators-in-a-test" {
		t.Errorf("got %s with %q\nwant %s", request, token, want)
	}
	until := time.Date(2026, 11, 20, 13, 7, 31, 0, time.UTC).Local().Format("2006-01-02 15:04:05 MST")
	if want := "blocked: user, burst of tenant=a user=b\nuntil: " + until + "\n"; code != exitOK || stdout != want {
		t.Errorf("exit %d, %s; got\n%swant\n%s", code, stderr, stdout, want)
	}
	if code, stdout, _ := runWeir("block", "api", "--for", "0", "--url", weir.URL, "--json"); code != exitOK || stdout != answer+"\n" {
		t.Errorf("exit %d, got %s", code, stdout)
	}
	answer = `{"policy":"api","limits":["all"]}`
	if _, stdout, _ := runWeir("block", "api", "--for", "0", "--url", weir.URL); stdout != "released: all\n" {
		t.Errorf("got %s", stdout)
	}
	answer = `{}`
	if code, _, stderr := runWeir("block", "api", "--for", "1m", "--url", weir.URL); code != exitUsage || !strings.Contains(stderr, "is not a weir of this version") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	for _, wrong := range [][]string{{}, {"--for", "-1m"}, {"--for", "1us"}} {
		if code, _, stderr := runWeir(append([]string{"block", "api", "--url", weir.URL}, wrong...)...); code != exitUsage || !strings.Contains(stderr, "write one such as --for 10m") {
			t.Errorf("%q: exit %d, %s", wrong, code, stderr)
		}
	}
}
