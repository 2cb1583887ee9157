package answer

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"plain\ttext\n":            "plain\ttext\n",
		"Grüße, 東京 😀 …":            "Grüße, 東京 😀 …",
		"\x1b[31mred":              `\u001b[31mred`,
		"over\rwritten\b\x00\x7f":  `over\u000dwritten\u0008\u0000\u007f`,
		"\u009b31m":                `\u009b31m`,
		"a\u202eb\u2066c\u200fd":   `a\u202eb\u2066c\u200fd`,
		"zero\u200bwidth\ufeff":    `zero\u200bwidth\ufeff`,
		"\u2028\u2029":             `\u2028\u2029`,
		"\U000e0041tag":            `\udb40\udc41tag`,
		"\xff\xc3":                 `\ufffd\ufffd`,
		"half a sequence \xe2\x80": `half a sequence \ufffd\ufffd`,
		"\u00a0":                   `\u00a0`,
		"at the end \x1b":          `at the end \u001b`,
	} {
		if got := string(Printable([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// JSON goes on meaning the same, and nothing in it acts in a terminal.
func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b\u202e\U000e0041\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		plain, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]string
		json.Unmarshal(plain, &before)
		made := Printable(bytes.Clone(plain))
		if err := json.Unmarshal(made, &after); err != nil {
			t.Fatalf("%q: %v", made, err)
		}
		for k, v := range before {
			if after[k] != v {
				t.Errorf("%q became %q", before, after)
			}
		}
		if again := Printable(made); !bytes.Equal(again, made) {
			t.Errorf("%q is not left alone: %q", made, again)
		}
	})
}
