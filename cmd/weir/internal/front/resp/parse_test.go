package resp

import (
	"slices"
	"strings"
	"testing"
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
