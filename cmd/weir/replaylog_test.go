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

// TestBadLogs: each mistake in a log has one message, with its place or a count, and an exit
// code.
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
		{"UTF-16", "1\x009\x002\x00.\x00\n\x00", nil, exitUsage, "the file is UTF-16; convert it", 0},
		{"UTF-16 with a format", "\xff\xfe1\x009\x002\x00.\x00\n\x00", []string{"--format", "combined"}, exitUsage, "the file is UTF-16; convert it", 0},
		{"xz", "\xfd7zXZ\x00\x00\x04", nil, exitUsage, "LOG: the file is compressed by xz, which is not read; decompress it, or compress it by gzip or zstd", 0},
		{"bzip2", "BZh91AY&SY\n", nil, exitUsage, "LOG: the file is compressed by bzip2, which is not read", 0},
		{"binary in part", line + "a\x00\x01\n" + line, nil, exitOK, "1 line was skipped, of 3; the first:\n  LOG:2: the line is binary", 2},
		{"a byte order mark", "\ufeff" + line + line, nil, exitOK, "", 2},
		{"truncated", packed(many)[:len(packed(many))/2], nil, exitOK, "the compressed data end early or are damaged here", 0},
		{"truncated at its begin", packed(many)[:12], nil, exitUsage, "LOG: the compressed data end early", 0},
		{"truncated in the first line", packed(line)[:40], nil, exitUsage, "LOG: the compressed data end early", 0},
		{"a hole of zeros", "\x00\x00" + line + line, nil, exitOK, "2 zero bytes before lines were skipped, as copytruncate leaves them", 2},
		{"as many of two formats", line + head + "200 5\n", nil, exitUsage, "1 of the first 2 lines have the format combined, and as many common; name one with --format", 0},
		{"few lines of a format", line + "one\ntwo\n", nil, exitUsage, "LOG:2: the line has too few columns\n  LOG:3: the line has too few columns\nweir replay: LOG: only 1 of 3 lines have the detected format combined; if it is right, name it with --format combined\n", 0},
		{"no zone, and a zone", strings.ReplaceAll(line+line, " +0000", ""), []string{"--log-zone", "Europe/Berlin"}, exitOK, "", 2},
		{"an unknown time", object("requestTime", `"2026-03-05T08:00:01Z"`), nil, exitUsage, "map the name of its member with --field time=requestTime", 0},
		{"mixed", line + object("ts", "1772697601") + head + "200 5\n", []string{"--format", "combined"}, exitOK,
			"2 lines were skipped, of 3; the first:\n  LOG:2: the line has the format nginx-json, and the file combined\n  LOG:3: the line has the format common, and the file combined\n", 1},
		{"another format", line + line, []string{"--format", "alb"}, exitUsage, "no line is readable; the first is LOG:1: the line has the format combined, and the file alb", 0},
		{"no zone", strings.ReplaceAll(line+line, " +0000", ""), nil, exitUsage, "LOG: 2 of the first 2 lines have a time, and none a zone", 0},
		{"no zone in JSON", object("time", `"2026-03-05T08:00:01"`), nil, exitUsage, "1 of the first 1 lines have a time, and none a zone", 0},
		{"no zone in one line", line + strings.Replace(line, " +0000", "", 1), nil, exitOK, "1 line was skipped, of 2; the first:\n  LOG:2: the time has no zone", 1},
		{"1970", object("ts", "1772.6"), nil, exitOK, "1 request has an instant before 2000", 1},
		{"no such field", line, []string{"--key", "ip=x-real-ip"}, exitUsage, "no line has the field x-real-ip of the key ip; the lines have remote_addr, method, path, status, bytes, user_agent, ", 0},
		{"no such condition", line, []string{"--where", "tenant=a"}, exitUsage, "no line has the field tenant; the lines have remote_addr, ", 0},
		{"no such name", line, []string{"--field", "remote_addr=peer"}, exitUsage, "no line has the field remote_addr of the key ip; the lines have method", 0},
		{"a condition on the client", line + strings.Replace(line, "192.0.2.1", "192.0.2.9", 1), []string{"--where", "remote_addr!=*.9"}, exitOK, "", 1},
		{"a condition that leaves out nothing", line, []string{"--where", "status!=2xx"}, exitOK, "--where 'status!=2xx' leaves out no request; * is any text and ? one character, and others stand for themselves\n", 1},
		{"a network as a condition", line, []string{"--where", "remote_addr!=192.0.2.0/24"}, exitUsage, "\"remote_addr!=192.0.2.0/24\" compares a text, and 192.0.2.0/24 is a network; write a pattern of addresses, such as remote_addr=10.*", 0},
		{"a condition on the client behind a proxy", line + line[:len(line)-1] + " \"198.51.100.7\"\n", []string{"--trusted-proxies", "192.0.2.0/24", "--where", "remote_addr=198.51.100.7"}, exitOK, "", 1},
		{"no size", object("ts", "1772697601"), []string{"--units", "bytes"}, exitUsage, "no line has the field bytes of --units; the lines have remote_addr", 0},
		{"an empty key", line + line, []string{"--key", "ip=user"}, exitUsage, "the field user of the key ip has no value in any of 2 lines", 0},
		{"a key that is sometimes empty", line + strings.Replace(line, " - - [", " - ann [", 1), []string{"--key", "ip=user"}, exitOK, "1 request has no value for a key, and no decision", 1},
		{"a bad size", object("ts", "1772697601,\"bytes\":\"-7\""), []string{"--units", "bytes"}, exitUsage, "no request was decided: 1 with a size that is no number; choose other --units", 0},
		{"no forwarded field", line, []string{"--trusted-proxies", "192.0.2.0/24"}, exitUsage, "no line has the field x-forwarded-for of --trusted-proxies; the lines have remote_addr, ", 0},
		{"no forwarded field, and no proxy", line, []string{"--trusted-proxies", "10.0.0.0/8"}, exitOK, "", 1},
		{"a forwarded field in one line", line + line[:len(line)-1] + " \"198.51.100.7\"\n", []string{"--trusted-proxies", "192.0.2.0/24"}, exitOK, "", 2},
		{"no address in the forwarded field", line[:len(line)-1] + " \"unknown\"\n", []string{"--trusted-proxies", "192.0.2.0/24"}, exitUsage, "x-forwarded-for, as trusted proxies wrote it, has no address in any of 1 lines; log addresses, or choose another field than remote_addr", 0},
		{"blank lines at its begin", strings.Repeat("\n", 4<<20) + line, nil, exitUsage, "LOG: the first 4194304 bytes are blank lines; remove them, or name the format with --format", 0},
		{"some blank lines at its begin", strings.Repeat("\n", 65536) + line, nil, exitOK, "", 1},
		{"blank lines at its begin, and a format", strings.Repeat("\n", 4<<20) + line, []string{"--format", "combined"}, exitOK, "", 1},
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

// TestDoubtsAboutClients: if a log counts proxies or texts of clients in place of clients, a
// message has the next step. Other lines of the log do not hide the mistake.
func TestDoubtsAboutClients(t *testing.T) {
	line := func(peer, forwarded string) string {
		return fmt.Sprintf("%s - - [05/Mar/2026:08:00:01 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\" \"%s\"\n", peer, forwarded)
	}
	client := func(i int) string { return fmt.Sprintf("198.51.%d.%d", i/200, 1+i%200) }
	behind := func(peer string, peers, clients int) (log string) {
		for i := range clients {
			log += line(fmt.Sprintf(peer, i%peers), client(i))
		}
		return log
	}
	direct := func(clients int) (log string) {
		for i := range clients {
			log += line(fmt.Sprintf("192.0.2.%d", i), "-")
		}
		return log
	}
	random := func(peer, format string) (log string) {
		for i := range 3000 {
			log += line(peer, fmt.Sprintf(format, client(i)))
		}
		return log
	}
	const key = "--key ip=remote_addr"
	sockets := strings.ReplaceAll(behind("unix%.0d", 1, 30), "unix ", "unix: ")
	for _, c := range []struct {
		name, log, flags string
		want             string // on stderr; "" = nothing
	}{
		{"private proxies", behind("10.0.0.%d", 3, 301), key, "ip has 3 values, all of them private addresses, as proxies have, while x-forwarded-for has 301 other addresses; if these are the clients, add --trusted-proxies 10.0.0.0/8\n"},
		{"a direct client", behind("10.0.0.%d", 3, 20) + direct(1), key, "ip has 4 values, 3 of them private, as proxies have, while x-forwarded-for has 20 other addresses; if these are the clients, add --trusted-proxies 10.0.0.0/8\n"},
		{"many direct clients", direct(200) + behind("10.0.0.%d", 3, 20), key, "ip has 203 values, 3 of them private, "},
		{"a CDN", behind("203.0.113.%d", 3, 301), key, "ip has 3 values, while x-forwarded-for has 301 other addresses; if these are the clients, add --trusted-proxies RANGES, those of your proxies or CDN\n"},
		{"a CDN and direct clients", direct(3) + behind("203.0.113.%d", 3, 301), key, "ip has 6 values, while x-forwarded-for has 301 "},
		{"a CDN before a private proxy", strings.ReplaceAll(behind("203.0.113.%d", 3, 301), "\"\n", ", 203.0.113.0\"\n"), key, "ip has 3 values, while"},
		{"a Unix socket", sockets, key, "ip has 1 value, all of them private addresses, as proxies have, while x-forwarded-for has 30 other addresses; if these are the clients, add --trusted-proxies 127.0.0.0/8\n"},
		{"a trusted Unix socket", sockets, key + " --trusted-proxies 127.0.0.1", ""},
		{"private proxies without the field", strings.ReplaceAll(behind("10.0.0.%d", 3, 301), ` "198`, ` "-" "x" "198`), key, "ip has 3 values, all of them private addresses, as proxies have; if they are not the clients, log X-Forwarded-For and add --trusted-proxies 10.0.0.0/8\n"},
		{"Cloudflare without the field", strings.ReplaceAll(behind("162.158.0.%d", 3, 31), ` "198`, ` "-" "x" "198`), key, "ip has 3 values, most of them of Cloudflare; if they are not the clients, log X-Forwarded-For and add --trusted-proxies RANGES, those of Cloudflare\n"},
		{"private clients with few requests", strings.ReplaceAll(behind("10.0.0.%d", 30, 301), ` "198`, ` "-" "x" "198`), key, ""},
		{"clients without proxies", direct(200), key, ""},
		{"clients behind proxies of companies", behind("203.0.113.%d", 100, 300), key, ""},
		{"a script that forges the field", direct(200) + random("203.0.113.9", "%s"), key, ""},
		{"a forged left part", behind("10.0.0.%d", 1, 200) + random("10.0.0.1", "%s, 203.0.113.9"), key + " --trusted-proxies 10.0.0.0/8", ""},
		{"lists as keys", random("10.0.0.1", "%s, 203.0.113.9"), "--key ip=header:X-Forwarded-For", "values of the key ip are lists of addresses, of which a client can write the left part, so it can count as many clients; in place of header:x-forwarded-for, add --key ip=remote_addr --trusted-proxies RANGES, those of your proxies or CDN\n"},
		{"no lists as keys", behind("10.0.0.%d", 1, 30), "--key ip=header:X-Forwarded-For", ""},
	} {
		log := filepath.Join(t.TempDir(), "LOG")
		must.Do(t, os.WriteFile(log, []byte(c.log), 0o666))
		for _, verb := range []string{"suggest", "replay --policies " + writePolicies(t, onlySearch)} {
			args := append(strings.Fields(verb+" "+c.flags), log)
			code, _, stderr := runWeir(args...)
			if code != exitOK || !strings.Contains(stderr, c.want) || (c.want == "") != (stderr == "") {
				t.Errorf("%s: weir %s: exit %d, got %q, want %q", c.name, verb, code, stderr, c.want)
			}
		}
	}
}

// TestLogsWithoutADecision: if no request can be decided, the exit code is 2, and the message
// has the first reason.
func TestLogsWithoutADecision(t *testing.T) {
	const text = " - - [05/Mar/2026:08:00:01 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\" \"198.51.100.%d\"\n"
	dir := t.TempDir()
	log, copied := filepath.Join(dir, "a.log"), filepath.Join(dir, "a.log.gz")
	backup := filepath.Join(dir, "backup")
	for _, name := range []string{log, copied, backup} {
		must.Do(t, os.WriteFile(name, []byte("unix:"+fmt.Sprintf(text, 1)+"unix:"+fmt.Sprintf(text, 2)), 0o666))
	}
	addresses := writePolicies(t, onlySearch+"    keys: {ip: address}\n")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"replay --policies " + addresses + " -k ip=remote_addr", exitUsage, "no request was decided: 2 rejected, the first because: weir: bad key: the value of \"ip\" is not an address but a Unix socket, "},
		{"replay --policies " + addresses + " -k ip=remote_addr", exitUsage, "; if these are the clients, add --trusted-proxies 127.0.0.0/8\n"},
		{"replay --policies " + addresses + " -k ip=remote_addr --trusted-proxies 127.0.0.0/8", exitOK, ""},
		{"replay --policies " + addresses + " -k ip=remote_addr --where path=/x", exitUsage, "no request was decided: no request matches all conditions; "},
		{"suggest -k ip=remote_addr --where path=/x", exitUsage, "no request was decided: no request matches all conditions; "},
		{"suggest -k ip=header:X-Forwarded-For --trusted-proxies 127.0.0.0/8", exitUsage, "--trusted-proxies has no effect, because no --key reads remote_addr\n  write --key ip=remote_addr, or leave out --trusted-proxies\n"},
		{"replay --policies " + addresses + " -k ip=header:X-Forwarded-For --trusted-proxies 127.0.0.0/8", exitUsage, "--trusted-proxies has no effect, "},
		{"suggest -k ip=remote_addr --trusted-proxies 127.0.0.0/8 " + copied, exitOK, copied + " and " + log + " are probably one log, whose requests count twice; name one of them\n"},
		{"suggest -k ip=remote_addr --trusted-proxies 127.0.0.0/8 " + backup, exitOK, backup + " and " + log + " are probably one log, whose requests count twice; name one of them\n"},
		{"suggest -k ip=remote_addr --trusted-proxies 127.0.0.0/8 " + dir + "/./a.log", exitOK, " are probably one log, "},
		{"suggest -k ip=remote_addr --trusted-proxies 127.0.0.0/8", exitOK, ""},
	} {
		code, stdout, stderr := runWeir(append(strings.Fields(c.args), log)...)
		if code != c.code || !strings.Contains(stderr, c.want) || (c.want == "") != (stderr == "") || (code == exitOK) != (stdout != "") {
			t.Errorf("weir %s: exit %d, %q, want %d, %q", c.args, code, stderr, c.code, c.want)
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
		{append(make([]int64, 64), 7), strings.Repeat("·", 12) + "█", 5 * time.Second},
		{append([]int64{1, 0, 0, 2}, make([]int64, 29)...), "▄█" + strings.Repeat("·", 15), 2 * time.Second},
	} {
		if got, column := sparkline(c.counts, time.Second); got != c.want || column != c.column {
			t.Errorf("%v: got %s with %v a column, want %s with %v", c.counts, got, column, c.want, c.column)
		}
	}
}
