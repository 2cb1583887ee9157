package yamlnode

import (
	"strings"
	"testing"
)

// TestDepthIsBounded: 32 levels are read, 33 are not, in every form.
func TestDepthIsBounded(t *testing.T) {
	forms := map[string]func(n int) string{
		"lists":     func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) },
		"maps":      func(n int) string { return strings.Repeat("{a: ", n) + "b" + strings.Repeat("}", n) },
		"dashes":    func(n int) string { return strings.Repeat("- ", n) + "a" },
		"block map": func(n int) string { return blockMaps(n) },
	}
	for name, form := range forms {
		if _, err := Read([]byte(form(MaxDepth))); err != nil {
			t.Errorf("%s: %d levels: %v", name, MaxDepth, err)
		}
		if _, err := Read([]byte(form(MaxDepth + 1))); err == nil || !strings.Contains(err.Problem, "32 levels") {
			t.Errorf("%s: %d levels: got %v, want an error that says so", name, MaxDepth+1, err)
		}
	}
}

func blockMaps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// TestManyEscapedCharactersAreOneError: the first is reported, and the others cost nothing.
// When each was located in the text, 256 KiB of them took minutes.
func TestManyEscapedCharactersAreOneError(t *testing.T) {
	d, err := Read([]byte(`a: "é` + strings.Repeat(`\e`, 128<<10) + `"`))
	if err == nil || !strings.Contains(err.Problem, "U+001B") {
		t.Fatalf("got %v, want an error with U+001B", err)
	}
	if line, column, _ := d.Position(err.Offset); line != 1 || column != 6 {
		t.Errorf("the error is at %d:%d, want 1:6", line, column)
	}
}
