package resp

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseReadsCommands(t *testing.T) {
	for _, c := range []struct {
		text string
		args []string
		size int
	}{
		{"*1\r\n$4\r\nPING\r\n", []string{"PING"}, 14},
		{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\nPING\r\n", []string{"ECHO", ""}, 20},
		{"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\x00\xff\r\nrest", []string{"ECHO", "\r\n\x00\xff"}, 24},
		{"*0\r\n", nil, 4},
		{"*-1\r\nPING\r\n", nil, 5},
		{"PING\r\n", []string{"PING"}, 6},
		{"PING\nPING\n", []string{"PING"}, 5},
		{"  WEIR.CHECK\tdemo  user=a=b \r\n", []string{"WEIR.CHECK", "demo", "user=a=b"}, 30},
		{"\r\n", nil, 2},
		{"\n", nil, 1},
	} {
		args, size, err := parse(c.text, nil)
		if err != nil || size != c.size || !slices.Equal(args, c.args) {
			t.Errorf("%q: %q, %d bytes, %v; want %q, %d", c.text, args, size, err, c.args, c.size)
		}
		for i := range c.size { // nothing is read before its end is there
			if _, size, err := parse(c.text[:i], nil); size != 0 || err != nil {
				t.Errorf("%q: %d bytes, %v; want more to be waited for", c.text[:i], size, err)
			}
		}
	}
}

func TestParseRejectsBadCommands(t *testing.T) {
	long := strings.Repeat("x", maxCommand)
	for text, want := range map[string]string{
		"*\r\n":                      "length of an array",
		"*x\r\n":                     "not a number",
		"*-2\r\n":                    "not a number",
		"*+1\r\n":                    "not a number",
		"*65\r\n":                    "not 0 to 64",
		"*99999999999999999999\r\n":  "not a short number",
		"*1\n$4\r\nPING\r\n":         "not a short number",
		"*1\r\n:1\r\n":               "expected '$'",
		"*1\r\n*1\r\n$4\r\nPING\r\n": "expected '$'",
		"*1\r\n$-1\r\n":              "null",
		"*1\r\n$65537\r\n":           "not 0 to 65536",
		"*1\r\n$3\r\nPING\r\n":       "not followed by CR LF",
		"*1\r\n$4\r\nPING\n\n":       "not followed by CR LF",
		"*2\r\n$40000\r\n" + long[:40000] + "\r\n$40000\r\n": "longer than 64 KiB",
		"*1\r\n$65536\r\n":              "longer than 64 KiB",
		long[:maxInline]:                "too long a line",
		"ECHO \"a b\"\r\n":              "quotes",
		strings.Repeat("a ", 65) + "\n": "more than 64 words",
		"POST /v1/check HTTP/1.1\r\n":   "HTTP",
		"GET / HTTP/1.1\r\n":            "HTTP",
		"Host: 127.0.0.1:7072\r\n":      "HTTP",
	} {
		if args, size, err := parse(text, nil); err == nil || size != 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %q, %d bytes, %v; want an error of %q", text, args, size, err, want)
		}
	}
}

// FuzzSession sends arbitrary bytes. The session must not panic. Its answers must not
// depend on the split into packets or on waiting decisions, and must be RESP: one reply
// for each command.
func FuzzSession(f *testing.F) {
	for _, text := range []string{
		array("WEIR.PEEK", "push", "teacher=42") + array("WEIR.CHECK", "push", "teacher=42", "3"),
		array("WEIR.RECORD", "wide", "user=a", "tenant=b", "2251799813685247") + array("WEIR.PEEK", "wide", "tenant=b", "user=a"),
		array("WEIR.REFUND", "one", "946684800000000", "5") + array("WEIR.RESET", "one") + "WEIR.CHECK one\r\n",
		array("WEIR.CHECK", "wide", "user=a", "tenant=b") + array("WEIR.COUNT", "wide", "tenant=b", "user=a", "1000", "LIMIT", "user") + array("WEIR.COUNT", "one", "1"),
		array("HELLO", "3", "AUTH", "default", "secret-of-tests!", "SETNAME", "x") + array("CLIENT", "TRACKING", "ON") + array("CLIENT", "INFO"),
		array("AUTH", "secret-of-tests!") + array("CONFIG", "GET", "save") + array("INFO") + array("RESET") + array("QUIT"),
		array("WEIR.CHECK", "push", "a=1", "b=1", "c=1", "d=1") + array("WEIR.CHECK", "push", "d=1", "c=1", "b=1", "a=1"),
		"*2\r\n$4\r\nECHO\r\n$3\r\na\nb\r\n*-1\r\n*0\r\n\r\nPING\n",
		"*1\r\n$-1\r\n", "*1\r\n*1\r\n", "*65\r\n", "*1\r\n$65537\r\n", "GET / HTTP/1.1\r\n", "*3\r\n$4\r\nPI",
	} {
		f.Add([]byte(text), uint16(len(text)/2))
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		synctest.Test(t, func(t *testing.T) { // time stands still, so answers can be compared
			whole, err := converse(t, false, string(text))
			n := min(int(cut), len(text))
			for _, waits := range []bool{false, true} {
				pieces, err2 := converse(t, waits, string(text[:n]), string(text[n:]))
				if whole != pieces || fmt.Sprint(err) != fmt.Sprint(err2) {
					t.Errorf("%q: answers %q, %v; cut after %d, waiting %v: %q, %v", text, whole, err, n, waits, pieces, err2)
				}
			}
			for rest := whole; rest != ""; {
				var bad error
				if rest, bad = cutReply(rest); bad != nil {
					t.Fatalf("%q: answers %q: %v", text, whole, bad)
				}
			}
		})
	})
}

// converse sends the pieces as separate packets.
func converse(t *testing.T, waits bool, pieces ...string) (answers string, err error) {
	s := newTestServer(t, func(c *Config) {
		c.Waits = waits
		c.Admin = secret(t, "secret-of-tests!")
	})
	c := session{server: s, id: 1, protocol: 2}
	buffered := ""
	for _, piece := range pieces {
		buffered += piece
		used, err := c.answer(buffered)
		buffered = buffered[used:]
		if err != nil || c.ended {
			return string(c.out), err
		}
	}
	return string(c.out), nil
}

// cutReply cuts a reply off the beginning of text, as a client reads it.
func cutReply(text string) (rest string, err error) {
	head, rest, ok := strings.Cut(text, "\r\n")
	if !ok || head == "" || strings.Contains(head, "\n") {
		return "", fmt.Errorf("no line at %.40q", text)
	}
	n, notANumber := strconv.Atoi(head[1:])
	switch head[0] {
	case '+', '-':
		return rest, nil
	case ':':
		return rest, notANumber
	case '$':
		if n == -1 {
			return rest, nil
		}
		if notANumber != nil || len(rest) < n+2 || rest[n:n+2] != "\r\n" {
			return "", fmt.Errorf("bad bulk string at %.40q", text)
		}
		return rest[n+2:], nil
	case '%':
		n *= 2
	case '*':
	default:
		return "", fmt.Errorf("no reply at %.40q", text)
	}
	for range n {
		if rest, err = cutReply(rest); err != nil {
			return "", err
		}
	}
	return rest, notANumber
}

// BenchmarkSession measures a decision without a network: parsing, deciding and writing.
func BenchmarkSession(b *testing.B) {
	c := session{server: newTestServer(b), protocol: 2}
	text := strings.Repeat(array("WEIR.CHECK", "big", "k=some.key"), 16)
	b.ReportAllocs()
	for n := 0; n < b.N; n += 16 {
		c.out = c.out[:0]
		c.answer(text)
	}
}

// BenchmarkConnection measures a decision over loopback, client and server together,
// alone and in pipelines.
func BenchmarkConnection(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			c := dial(b, listening(b, newTestServer(b)))
			c.SetDeadline(time.Time{})
			ask := array("WEIR.CHECK", "big", "k=some.key")
			answers := make([]byte, depth*len("*9\r\n:1\r\n:1\r\n:1099511627775\r\n:0\r\n:60000\r\n$0\r\n\r\n:1795186127069717\r\n:0\r\n:0\r\n"))
			text := []byte(strings.Repeat(ask, depth))
			for n := 0; n < b.N; n += depth {
				c.Write(text)
				if _, err := io.ReadFull(c, answers); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
