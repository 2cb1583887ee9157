package weirredis_test

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"github.com/weirlimit/weir/weirredis"
)

// altered is the source with one text in place of another.
type altered struct{ old, new string }

func (a altered) Open(name string) (fs.File, error) { return weirredis.Source.Open(name) }

func (a altered) ReadFile(name string) ([]byte, error) {
	text, err := weirredis.Source.ReadFile(name)
	return bytes.ReplaceAll(text, []byte(a.old), []byte(a.new)), err
}

// TestScriptsShareOneSource changes the deciding code in one place of the source, and finds
// the change in every script. Only the quick path has code of its own, which
// TestQuickPathEqualsLongPath compares with the long path.
func TestScriptsShareOneSource(t *testing.T) {
	before, err := weirredis.ScriptTexts(weirredis.Source)
	if err != nil {
		t.Fatal(err)
	}
	deciding := []string{"one", "batch", "two", "three", "many", "kinds", "once"}
	for _, c := range []struct {
		about    string
		old, new string
		scripts  []string
	}{
		{"what counts (R3)", "$newest <= $cut", "$newest < $cut", append(deciding, "refund")},
		{"clocks (R2)", "$last - raw >= 1000000", "$last - raw >= 1000001", append(deciding, "refund", "count")},
		{"room (R5)", "{{units}} <= $room", "{{units}} < $room", []string{"one", "batch"}},
		{"room of several (R5)", "{{units}} > $room", "{{units}} >= $room", []string{"two", "three", "many", "once"}},
		{"waits (R8)", `{{left "at"}}`, "at - now", deciding},
		{"expiry (R13)", "local ends = {{.Ends}}", "local ends = $gap", append(deciding, "refund")},
		{"what is written", "call('HSET', $key, 'h'", "call('HSET', $key, 'g'", append(deciding, "refund")},
	} {
		after, err := weirredis.ScriptTexts(altered{c.old, c.new})
		if err != nil {
			t.Fatalf("%s: %v", c.about, err)
		}
		for _, name := range c.scripts {
			if before[name] == after[name] {
				t.Errorf("%s: %q in place of %q changes nothing in script %s", c.about, c.new, c.old, name)
			}
		}
	}
}

// TestScriptsFormatNumbersWithoutLoss rejects number formats of Lua that lose digits or
// that some servers reject.
func TestScriptsFormatNumbersWithoutLoss(t *testing.T) {
	texts, err := weirredis.ScriptTexts(weirredis.Source)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		for _, bad := range []string{"tostring(", "%d", "%s", "%g", "tonumber"} {
			// tostring of an error message is allowed.
			if strings.Contains(strings.ReplaceAll(text, "tostring(problem)", ""), bad) {
				t.Errorf("script %s has %q", name, bad)
			}
		}
		if !strings.Contains(text, "'%.0f'") && name != "count" && name != "reset" {
			t.Errorf("script %s has no '%%.0f'", name)
		}
	}
}
