package store

import (
	"errors"
	"strings"
	"testing"
)

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

// TestOpenFile: histories survive the end of a store, and one process at a time has them.
func TestOpenFile(t *testing.T) {
	name := "file:" + t.TempDir() + "/weir?sync=always"
	s, err := Open(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !decide(t, s) || s.Shared || s.Memory != nil || s.Err() != nil {
		t.Errorf("want a grant in a store of one process: %+v, %v", s, s.Err())
	}
	id, err := s.Identity(t.Context())
	if err != nil || len(id) < 20 {
		t.Errorf("identity %q, %v", id, err)
	}
	if _, err := Open(name, Options{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v, want ErrRefused", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, name)
	if decide(t, again) {
		t.Error("the grant was forgotten")
	}
	if same, err := again.Identity(t.Context()); same != id || err != nil {
		t.Errorf("identity %q, then %q, %v", id, same, err)
	}
}
