package listen

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, shown string
		local       bool
	}{
		{"127.0.0.1:7070", "127.0.0.1:7070", true},
		{"127.9.9.9:0", "127.9.9.9:0", true},
		{"[::1]:7070", "[::1]:7070", true},
		{"localhost:80", "", true},
		{"unix:/run/weir.sock", "unix:/run/weir.sock", true},
		{":7070", ":7070", false},
		{"0.0.0.0:7070", "0.0.0.0:7070", false},
		{"[::]:7070", "[::]:7070", false},
		{"192.0.2.1:7070", "192.0.2.1:7070", false},
		{"[::ffff:127.0.0.1]:1", "127.0.0.1:1", true},
		{"[::ffff:192.0.2.1]:1", "192.0.2.1:1", false},
	} {
		a, err := Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if a.Local() != c.local || c.shown != "" && a.String() != c.shown {
			t.Errorf("%s: shown as %s, local %t; want %s, %t", c.text, a, a.Local(), c.shown, c.local)
		}
	}
	for _, text := range []string{"", "nowhere", "127.0.0.1", "127.0.0.1:notaport", "127.0.0.1:70000", "unix:"} {
		if a, err := Parse(text); err == nil {
			t.Errorf("%q is read as %s, want an error", text, a)
		}
	}
}

func TestNames(t *testing.T) {
	names, err := ParseNames("weir.corp.example", "Weir-2.example.")
	if err != nil || names.Empty() {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"":                        true, // HTTP/1.0: no browser
		"localhost":               true,
		"LOCALHOST:7070":          true,
		"localhost.:7070":         true,
		"127.0.0.1":               true,
		"127.0.0.1:7070":          true,
		"192.0.2.7:7070":          true,
		"[::1]":                   true,
		"[::1]:7070":              true,
		"::1":                     true,
		"[fe80::1%eth0]:7070":     true,
		"weir.corp.example":       true,
		"Weir.Corp.Example.:7070": true,
		"weir-2.example:1":        true,
		"weir":                    true, // of one label: no public site
		"Weir:7070":               true,
		"weir.localhost:7070":     true,
		"host.docker.internal":    true,
		"internal.evil.example":   false,
		"weir.internal.evil":      false,
		"evil.example":            false,
		"evil.example:7070":       false,
		"weir.corp.example.evil":  false,
		"x.weir.corp.example":     false,
		"localhost.evil":          false,
		"127.0.0.1.evil":          false,
		"127.0.0.1.":              false,
		"127.1":                   false, // a name to resolvers
		"evil.localhost.evil":     false,
		"weir..":                  false,
		".evil":                   false,
		"evil:":                   true,
		"[evil.example]":          false,
		"[::1":                    true, // net/http rejects it before
		":7070":                   false,
		":":                       false,
		"localhost:7070:evil":     false,
		"evil@localhost":          false,
		"localhost, evil":         false,
		"localhost/../evil":       false,
		"evil.example#localhost":  false,
	} {
		if got := names.Has(host); got != want {
			t.Errorf("Host: %s: %v, want %v", host, got, want)
		}
	}
	if n := names.With(Address{host: "Here.example"}); !n.Has("here.example:7070") || !n.Has("weir.corp.example") || names.Has("here.example") {
		t.Errorf("%v and the name of the address: %v", names, n)
	}
	if n := names.With(Address{host: "::1"}); len(n.all) != len(names.all) {
		t.Errorf("an address is no name: %v", n)
	}
	if (Names{}).Has("weir.corp.example") || !(Names{}).Empty() {
		t.Error("empty Names accept a name")
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{"", ".", "weir:7070", "http://weir", "weir/", "*", "*.weir", "[::1]", "a b", "wéir", "weir\n", strings.Repeat("x", 254)} {
		if _, err := ParseNames("weir", name); err == nil || !strings.Contains(err.Error(), "without a port") {
			t.Errorf("%q: %v, want an error that describes a name", name, err)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"", ":", "[", "]:", "a:1", "[::1]:1", "::", "[]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) { Names{}.Has(host) })
}
