package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

const onlySearch = "version: 1\npolicies:\n  search:\n    limit: 5 per minute per ip\n"

// TestBadLogs: each mistake in a log has one message with its place or a count, and the
// exit code.
func TestBadLogs(t *testing.T) {
	const head = "192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] \"GET / HTTP/1.1\" "
	const line = head + "200 500 \"-\" \"curl\"\n"
	packed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte(text))
		z.Close()
		return b.String()
	}
	many := ""
	for i := range 3000 {
		many += strings.Replace(line, "GET /", fmt.Sprintf("GET /%x", i*i*7919), 1)
	}
	object := func(member, value string) string {
		return fmt.Sprintf("{%q:%s,\"remote_addr\":\"192.0.2.1\"}\n", member, value)
	}
	for _, c := range []struct {
		name, text string
		flags      []string
		code       int
		talk       string // on stderr; "" = nothing
		requests   int64
	}{
		{"binary", "\x7fELF\x00\x01\x02\n\x00", nil, exitUsage, "the file is binary", 0},
		{"UTF-16", "1\x009\x002\x00.\x00\n\x00", nil, exitUsage, "the file is binary", 0},
		{"binary in part", line + "\x00\x01\n" + line, nil, exitOK, "1 line was skipped, of 3; the first:\n  LOG:2: the line is binary", 2},
		{"a byte order mark", "\ufeff" + line + line, nil, exitOK, "", 2},
		{"truncated", packed(many)[:len(packed(many))/2], nil, exitOK, "the compressed data end early or are damaged here", 0},
		{"truncated at its begin", packed(many)[:12], nil, exitUsage, "LOG: the compressed data end early", 0},
		{"truncated in the first line", packed(line)[:40], nil, exitUsage, "LOG: the compressed data end early", 0},
		{"mixed", line + object("ts", "1772697601") + head + "200 5\n", nil, exitOK,
			"2 lines were skipped, of 3; the first:\n  LOG:2: the line has the format nginx-json, and the file combined\n  LOG:3: the line has the format common, and the file combined\n", 1},
		{"another format", line + line, []string{"--format", "alb"}, exitUsage, "no line is readable; the first is LOG:1: the line has the format combined, and the file alb", 0},
		{"no zone", strings.ReplaceAll(line+line, " +0000", ""), nil, exitUsage, "LOG: 2 of the first 2 lines have a time, and none a zone", 0},
		{"no zone in JSON", object("time", `"2026-03-05T08:00:01"`), nil, exitUsage, "1 of the first 1 lines have a time, and none a zone", 0},
		{"no zone in one line", line + strings.Replace(line, " +0000", "", 1), nil, exitOK, "1 line was skipped, of 2; the first:\n  LOG:2: the time has no zone", 1},
		{"1970", object("ts", "1772.6"), nil, exitOK, "1 request has an instant before 2000", 1},
		{"no such field", line, []string{"--key", "ip=x-real-ip"}, exitUsage, "no line has the field x-real-ip of the key ip; the lines have remote_addr, method, path, status, bytes, user_agent, ", 0},
		{"no such condition", line, []string{"--where", "tenant=a"}, exitUsage, "no line has the field tenant; the lines have remote_addr, ", 0},
		{"no such name", line, []string{"--field", "remote_addr=peer"}, exitUsage, "no line has the field remote_addr of the key ip; the lines have method", 0},
		{"no size", object("ts", "1772697601"), []string{"--units", "bytes"}, exitUsage, "no line has the field bytes of --units; the lines have remote_addr", 0},
		{"an empty key", line + line, []string{"--key", "ip=user"}, exitUsage, "the field user of the key ip has no value in any of 2 lines", 0},
		{"a key that is sometimes empty", line + strings.Replace(line, " - - [", " - ann [", 1), []string{"--key", "ip=user"}, exitOK, "1 request has no value for a key, and no decision", 1},
		{"a bad size", object("ts", "1772697601,\"bytes\":\"-7\""), []string{"--units", "bytes"}, exitOK, "1 request has a size that is no number, and no decision", 0},
		{"no forwarded field", line, []string{"--trusted-proxies", "192.0.2.0/24"}, exitUsage, "no line has the field x-forwarded-for of --trusted-proxies; the lines have remote_addr, ", 0},
		{"no forwarded field, and no proxy", line, []string{"--trusted-proxies", "10.0.0.0/8"}, exitOK, "", 1},
		{"a forwarded field in one line", line + line[:len(line)-1] + " \"198.51.100.7\"\n", []string{"--trusted-proxies", "192.0.2.0/24"}, exitOK, "", 2},
		{"no address in the forwarded field", line[:len(line)-1] + " \"unknown\"\n", []string{"--trusted-proxies", "192.0.2.0/24"}, exitUsage, "x-forwarded-for, as trusted proxies wrote it, has no address in any of 1 lines; log addresses, or choose another field than remote_addr", 0},
		{"blank lines at its begin", strings.Repeat("\n", 65536) + line, nil, exitUsage, "LOG: the first 65536 bytes are blank lines; remove them, or name the format with the format option", 0},
		{"blank lines at its begin, and a format", strings.Repeat("\n", 65536) + line, []string{"--format", "combined"}, exitOK, "", 1},
		{"a line of the bound", line + strings.Replace(line, "GET /", "GET /"+strings.Repeat("a", 131073-len(line)), 1), nil, exitOK, "", 2},
		{"a line above the bound", line + strings.Replace(line, "GET /", "GET /"+strings.Repeat("a", 131074-len(line)), 1), nil, exitOK, "LOG:2: the line is longer than 131072 bytes", 1},
		{"a line above the bound, CRLF", line + strings.Replace(line[:len(line)-1]+"\r\n", "GET /", "GET /"+strings.Repeat("a", 131074-len(line)), 1), nil, exitOK, "LOG:2: the line is longer than 131072 bytes", 1},
		{"no lines", "\n\r\n", nil, exitUsage, "the logs have no lines", 0},
	} {
		dir := t.TempDir()
		log := filepath.Join(dir, "LOG")
		must.Do(t, os.WriteFile(log, []byte(c.text), 0o666))
		args := append([]string{"replay", "--policies", writePolicies(t, onlySearch), "--json", log}, c.flags...)
		if !strings.Contains(strings.Join(c.flags, " "), "ip=") {
			args = append(args, "--key", "ip=remote_addr")
		}
		code, stdout, stderr := runWeir(args...)
		talk := strings.ReplaceAll(stderr, dir+"/", "")
		if code != c.code || !strings.Contains(talk, c.talk) || (c.talk == "") != (talk == "") {
			t.Errorf("%s: got exit code %d and %q, want %d and %q", c.name, code, talk, c.code, c.talk)
		}
		if code == exitOK && c.requests > 0 && !strings.HasPrefix(stdout, fmt.Sprintf(`{"requests":%d,`, c.requests)) || code != exitOK && stdout != "" {
			t.Errorf("%s: got %s on stdout, want %d requests", c.name, stdout, c.requests)
		}
	}
}

func TestSparkline(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		want   string
		column time.Duration
	}{
		{[]int64{1}, "█", time.Second},
		{[]int64{0, 1, 8, 16}, "·▁▄█", time.Second},
		{[]int64{0, 1, 1000}, "·▁█", time.Second},
		{append(make([]int64, 64), 7), strings.Repeat("·", 21) + "█", 3 * time.Second},
		{append([]int64{1, 0, 0, 2}, make([]int64, 29)...), "▄█" + strings.Repeat("·", 15), 2 * time.Second},
	} {
		if got, column := sparkline(c.counts, time.Second); got != c.want || column != c.column {
			t.Errorf("%v: got %s with %v a column, want %s with %v", c.counts, got, column, c.want, c.column)
		}
	}
}
