package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	names := []string{"push-notifications", "search", "sms"}
	for _, c := range []struct{ typed, want string }{
		{"serach", "search"},
		{"Search", "search"},
		{"SEARCH", "search"},
		{strings.Repeat("s", maxWord+1), ""},
		{"seach", "search"},
		{"push-notification", "push-notifications"},
		{"push_notifications", "push-notifications"},
		{"sns", "sms"},
		{"transfers", ""},
		{"x", ""},
		{"", ""},
	} {
		if got := Name(c.typed, names); got != c.want {
			t.Errorf("%q: got %q, want %q", c.typed, got, c.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"abc", "abc", 0}, {"", "abc", 3}, {"abc", "", 3},
		{"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "xabc", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
