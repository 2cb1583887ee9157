package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

func TestField(t *testing.T) {
	file := filepath.Join(t.TempDir(), "facts")
	text := "processor\t: 0\nmodel name\t: Quick 9000 @ 3: GHz\nmodel names: no\nPRETTY_NAME=\"An OS\"\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	for name, want := range map[string]string{
		"model name":  "Quick 9000 @ 3: GHz",
		"PRETTY_NAME": `"An OS"`,
		"model":       unknown,
		"absent":      unknown,
	} {
		if got := field(file, name); got != want {
			t.Errorf("field %q = %q, want %q", name, got, want)
		}
	}
	if got := field(file+"-not-there", "x"); got != unknown {
		t.Errorf("field of a missing file = %q, want %q", got, unknown)
	}
}
