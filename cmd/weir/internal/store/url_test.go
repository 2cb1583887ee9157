package store

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]target{
		"redis://localhost":                   {kind: single, addresses: []string{"localhost:6379"}},
		"redis://127.0.0.1:6380/2":            {kind: single, addresses: []string{"127.0.0.1:6380"}, db: 2},
		"redis://[::1]:6380":                  {kind: single, addresses: []string{"[::1]:6380"}},
		"redis://[::1]":                       {kind: single, addresses: []string{"[::1]:6379"}},
		"redis://ann:s3cret@h":                {kind: single, addresses: []string{"h:6379"}, username: "ann", password: "s3cret"},
		"redis://:s3cret@h":                   {kind: single, addresses: []string{"h:6379"}, password: "s3cret"},
		"redis://a%40b:p%3A%2F%40x@h":         {kind: single, addresses: []string{"h:6379"}, username: "a@b", password: "p:/@x"},
		"redis://:p@ss@h":                     {kind: single, addresses: []string{"h:6379"}, password: "p@ss"},
		"rediss://h?ca=/etc/ca.pem":           {kind: single, tls: true, addresses: []string{"h:6379"}, ca: "/etc/ca.pem"},
		"redis://h/1?prefix=staging%3A":       {kind: single, addresses: []string{"h:6379"}, db: 1, prefix: "staging:"},
		"redis+sentinel://a,b:1/mymaster":     {kind: sentinel, addresses: []string{"a:26379", "b:1"}, master: "mymaster"},
		"rediss+sentinel://a/m?db=3":          {kind: sentinel, tls: true, addresses: []string{"a:26379"}, master: "m", db: 3},
		"redis+cluster://a:7000,b:7001,c":     {kind: cluster, addresses: []string{"a:7000", "b:7001", "c:6379"}},
		"rediss+cluster://u:p@a?ca=ca%20.pem": {kind: cluster, tls: true, addresses: []string{"a:6379"}, username: "u", password: "p", ca: "ca .pem"},
	} {
		got, err := parseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want.scheme, _, _ = strings.Cut(text, "://")
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: got %+v, want %+v", text, *got, want)
		}
		if want.password != "" && strings.Contains(got.String(), want.password) {
			t.Errorf("%s: the name %s holds the password", text, got)
		}
	}
}

func TestParseFile(t *testing.T) {
	for text, want := range map[string]string{
		"/var/lib/weir":                "file:/var/lib/weir?sync=100ms",
		"///var/lib/weir":              "file:/var/lib/weir?sync=100ms",
		"data/":                        "file:data?sync=100ms",
		"./data?sync=always":           "file:data?sync=always",
		"/var/lib/weir?access=any":     "file:/var/lib/weir?sync=100ms&access=any",
		"/var/lib/weir?sync=1s":        "file:/var/lib/weir?sync=1s",
		"/var/lib/we%3Fir%25?sync=1ms": "file:/var/lib/we?ir%?sync=1ms",
	} {
		if d, err := parseFile(text); err != nil || d.String() != want || d.sync == nil {
			t.Errorf("file:%s: %v, %v; want %s", text, d, err, want)
		}
	}
}

func TestParseRejects(t *testing.T) {
	const secret = "s3cret"
	for text, want := range map[string]string{
		"":                              "neither memory nor a URL",
		"Memory":                        "; write memory",
		"redis":                         "neither",
		"/var/lib/weir":                 "write file:/var/lib/weir",
		"memcached://h":                 `no store of the kind "memcached://"`,
		"redis://":                      "host is missing",
		"redis://:6379":                 "host is missing",
		"redis://h?prefix=a%7Bb":        "prefix= is longer than 64 bytes or has a brace",
		"redis://h:0":                   "1 to 65535",
		"redis://h:65536":               "1 to 65535",
		"redis://h:x":                   "1 to 65535",
		"redis://a:b:c":                 "not host:port",
		"redis://a,b":                   "one server, not 2",
		"redis://h/x":                   "not a database",
		"redis://h/-1":                  "not a database",
		"redis://u:" + secret + "%@h":   "%25",
		"redis+sentinel://h":            "master's name",
		"redis+cluster://h/1":           "no database but 0",
		"redis://h?ca=x":                "rediss",
		"redis://h?db=1":                "no parameter",
		"redis://h?x=1":                 "no parameter",
		"redis://h?db=1&ca=x":           "ca= is for TLS", // parameters are read in order
		"redis://u:" + secret:           "before an @",
		"redis://u:" + secret + "/0":    "before an @",
		"redis://u:" + secret + ":6379": "not host:port",
		"redis://u:1/" + secret:         "not a database",
		"redis://u:1?" + secret + "=1":  "no parameter",
		"redis://u:1?" + secret + "=%":  "name=value",
		"u:" + secret:                   `"u:…" is neither memory nor a URL`,
		"u:" + secret + "://h":          `no store of the kind "u:…://"`,
		"redis+cluster://u:1/" + secret: "no database but 0",
		"rediss://h?ca=a&ca=b":          "twice",
		"redis://h?%zz":                 "name=value",
		"redis+sentinel://h/m?db=x":     "not a database",
		"redis+cluster://a,,b":          "host is missing",
		"redis://u:" + secret + "@h:zz": "not a port",
		"mysql://u:" + secret + "@h":    "mysql",
		"localhost:6379":                "; write redis://localhost:6379",
		"[::1]:6379":                    "; write redis://[::1]:6379",
		"10.0.0.7":                      "; write redis://10.0.0.7:6379",
		"redis:localhost:6379":          "; write redis://localhost:6379",
		"./data":                        "; write file:./data",
		"u:" + secret + "@localhost:1":  "; write memory, or one of file:/DIR",
		"u:" + secret + "@h":            `"…@h" is neither memory nor a URL`,
		"u:" + secret + "@h://x":        `no store of the kind "…@h://"`,
		"redis://u:" + secret + "?@h":   "%3F",
		"redis://u:" + secret + "?a@h":  "%3F",
		"redis://h/0#u:" + secret + "@": "host is missing",

		"file:":                     "needs a directory; write file:/var/lib/weir",
		"file:?sync=always":         "needs a directory",
		"file:~/weir":               "write file:$HOME/weir",
		"file://host/weir":          "names another machine; write file:/host/weir",
		"file:/v%":                  "write %25 for a %",
		"file:/v?synk=always":       `no parameter "synk"; did you mean sync?`,
		"file:/v?db=1":              `no parameter "db"; sync= and access= are the only ones`,
		"file:/v?sync=allways":      "did you mean always?",
		"file:/v?sync=off":          "sync=off is not a mode",
		"file:/v?access=all":        "is not access=any",
		"file:/v?acces=any":         "did you mean access?",
		"file:/v?sync=":             "sync= is not a mode",
		"file:/v?sync=100":          "sync=100 is not a mode",
		"file:/v?sync=0s":           "not within 1ms and 1m",
		"file:/v?sync=1h":           "not within 1ms and 1m",
		"file:/v?sync=1s&sync=2s":   "given twice",
		"file:/v?sync=1s&Sync=off":  `no parameter "Sync"; did you mean sync?`,
		"file:/v?%zz":               "not name=value",
		"file:/v?sync=always;x=off": "not name=value",
	} {
		_, err := Describe(text)
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want ErrURL …%s…", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error holds the password: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("redis://ann:topsecret@localhost:6379/0")
	f.Add("rediss+sentinel://:topsecret@a,b/m?db=1&ca=x")
	f.Add("redis+cluster://topsecret@[::1]:1,b")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseURL(text)
		if err != nil {
			return
		}
		other := *parsed
		other.password = "another"
		if parsed.String() != other.String() {
			t.Errorf("%q: the name %q depends on the password", text, parsed)
		}
	})
}
