package main

import (
	"math"
	"testing"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{"1000001KiB": 1000001 << 10, "1048577": 1048577, "1MiB": 1 << 20, "512MiB": 512 << 20, "2GiB": 2 << 30} {
		var s size
		if err := s.Set(text); err != nil || int64(s) != want {
			t.Errorf("%s: got %d, %v, want %d", text, s, err, want)
		}
		if got := s.String(); got != text {
			t.Errorf("%d is shown as %s, want %s", want, got, text)
		}
	}
	for _, text := range []string{"", "0", "-1", "5", "1048575", "1023KiB", "MiB", "1MB", "1.5GiB", "512 MiB", "9999999999GiB", "1e9"} {
		s := size(math.MaxInt64)
		if err := s.Set(text); err == nil || s != math.MaxInt64 {
			t.Errorf("%q: got %d, %v, want an error and no change", text, s, err)
		}
	}
}
