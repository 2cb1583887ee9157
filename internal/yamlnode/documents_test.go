package yamlnode

import "testing"

// TestEmptyLastDocument: a separator at the end begins an empty document, which is ignored.
func TestEmptyLastDocument(t *testing.T) {
	for text, accepted := range map[string]bool{
		"a: b\n---\n":                 true,
		"a: b\n---":                   true,
		"---\na: b\n---\n---\n":       true,
		"a: b\n---\n# the end\n":      true,
		"a: b\n...\n---\n...\n":       true,
		"a: b\n---\nc: d\n":           false,
		"a: b\n---\n---\nc: d\n":      false,
		"a: b\n---\nnull\n":           false,
		"a: b\n---\n~\n":              false,
		"a: b\n---\n''\n":             false,
		"a: b\n---\n!!str\n":          false,
		"---\n---\na: b\n":            false,
		"a: b\n---\n&x\n":             false,
		"a: b\n---\n[]\n":             false,
		"a: b\n--- |\n":               false,
		"a: b\n---\n!!null\n":         false,
		"# nothing\n---\n# nothing\n": true,
	} {
		for name, read := range map[string]func([]byte) (*Document, *Error){"Read": Read, "ReadAll": ReadAll} {
			switch d, err := read([]byte(text)); {
			case (err == nil) != accepted:
				t.Errorf("%s of %q: %+v, want it accepted: %v", name, text, err, accepted)
			case err != nil && err.Problem != "a second document begins here":
				t.Errorf("%s of %q: %+v", name, text, err)
			case err == nil && d.Root.Len() != 1 && !d.Root.Null():
				t.Errorf("%s of %q: root %+v", name, text, d.Root)
			}
		}
	}
}
