package redispeers

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"testing"
	"time"
)

// TestFormsLoadTheirScripts: every script that a form's commands call is one of its
// scripts, and the key is among the arguments. The instant is too, with the caller's clock only.
func TestFormsLoadTheirScripts(t *testing.T) {
	for _, f := range Forms() {
		d := f.New(100, time.Minute)
		known := map[string]bool{}
		for _, text := range d.Scripts() {
			sum := sha1.Sum([]byte(text))
			known[hex.EncodeToString(sum[:])] = true
		}
		commands := d.Commands(Request{Key: "some-key", N: 1, At: 1_700_000_000_000_000})
		if len(commands) == 0 {
			t.Errorf("%s sends nothing", f.Name)
		}
		for _, c := range commands {
			if c[0] == "EVALSHA" && !known[c[1].(string)] {
				t.Errorf("%s calls script %v, which it does not load", f.Name, c[1])
			}
		}
		if !namesKey(commands, "some-key") {
			t.Errorf("%s: no word of %v names the key", f.Name, commands)
		}
		later := d.Commands(Request{Key: "some-key", N: 1, At: 1_700_000_000_000_001})
		if equal(commands, later) != f.ServerClock {
			t.Errorf("%s: commands a microsecond apart are equal: %v, want %v", f.Name, !f.ServerClock, f.ServerClock)
		}
	}
}

func namesKey(commands [][]any, key string) bool {
	return slices.ContainsFunc(commands, func(c []any) bool {
		return slices.ContainsFunc(c, func(word any) bool {
			text, ok := word.(string)
			return ok && len(text) >= len(key) && text[len(text)-len(key):] == key
		})
	})
}

func equal(a, b [][]any) bool {
	return slices.EqualFunc(a, b, func(x, y []any) bool { return slices.Equal(x, y) })
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All() {
		if seen[p.Name] || p.Name == "" || p.Kind == "" {
			t.Errorf("contestant %q of kind %q has no name of its own, or no kind", p.Name, p.Kind)
		}
		seen[p.Name] = true
		if got, err := Named(p.Name); err != nil || got.Name != p.Name {
			t.Errorf("Named(%q) = %q, %v", p.Name, got.Name, err)
		}
	}
	if _, err := Named("nobody"); err == nil {
		t.Error("nobody is a contestant")
	}
	if _, err := FormNamed("nothing"); err == nil {
		t.Error("nothing is a form")
	}
}

func TestUUID(t *testing.T) {
	a, b := uuid(), uuid()
	if len(a) != 36 || a == b || a[14] != '4' {
		t.Errorf("uuid() = %q, then %q", a, b)
	}
}
