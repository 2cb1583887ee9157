package redact

import (
	"net/http"
	"strings"
	"testing"
)

// TestURL: a secret is removed from any place, and a plain address is unchanged.
func TestURL(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"127.0.0.1:7070", "127.0.0.1:7070"},
		{"http://h:4318/v1/traces", "http://h:4318/v1/traces"},
		{"http://[::1]:4318", "http://[::1]:4318"},
		{"http://[::1]", "http://[::1]"},
		{"paper", "paper"},
		{"", ""},
		{"redis://u:s3cret", "redis://u:…"},
		{"redis://u:s3cret/0", "redis://u:…"},
		{"redis://u:s3cret:6379", "redis://u:…"},
		{"redis://u:123456", "redis://u:…"},
		{"redis://u:s3cret@h:6379", "…@h:6379"},
		{"u:s3cret@h://x", "…@h://x"},
		{"u:s3cret", "u:…"},
		{"redis:/s3cret", "redis:…"},
		{"http://h/?token=s3cret", "http://h/?…"},
		{"http://h:1?token=s3cret", "http://h:1?…"},
		{"http://h/#s3cret", "http://h/#…"},
		{"http://h/" + strings.Repeat("x", 80), "http://h/" + strings.Repeat("x", 55) + "…"},
	} {
		if got := URL(c.text); got != c.want {
			t.Errorf("URL(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestError(t *testing.T) {
	_, err := http.Get("nothing://h/?token=s3cret")
	if got := Error(err).Error(); got == "" || strings.Contains(got, "s3cret") {
		t.Errorf("got %q, want the cause without the URL", got)
	}
}
