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
