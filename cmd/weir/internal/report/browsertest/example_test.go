package browsertest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/weirlimit/weir/internal/testkit/program"
)

const root = "../../../../.."

// weir runs the program of this tree in its root folder.
func weir(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(program.Path(t), args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("weir %q: %v\n%s", args, err, out)
	}
}

// TestSuggestionForTheExampleLog opens the report of the log in examples/logs.
func TestSuggestionForTheExampleLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.html")
	weir(t, "suggest", "examples/logs/shop.log.gz", "--key", "ip=remote_addr", "--report", name)
	for _, s := range []screen{wide, {width: 390, height: 844, dark: true}} {
		b := open(t, "file://"+name, s)
		b.wants(map[string]string{`.tabs [aria-pressed="true"]`: "Per hour", view + "code.chosen": "400 per hour per ip"})
		if got, n := b.text(view+"h1"), b.count(view+"tr.over"); !strings.HasPrefix(got, "400 per hour per ip stops 5 clients and no other") || n != 5 {
			t.Errorf("the reason is %q, and %d keys are over the limit", got, n)
		}
		if got := b.overlaps(); len(got) > 0 {
			t.Errorf("%+v: %q", s, got)
		}
		b.accessible()
		b.slide(kb.End)
		if line, denied := b.text(view+"code.chosen"), b.text(view+".n-denied"); line == "400 per hour per ip" || denied != "0" {
			t.Errorf("the greatest limit is %q and denies %s requests, want 0", line, denied)
		}
	}
}

// TestReplayOfTheExampleLog opens the report of the command in docs/replay.md.
func TestReplayOfTheExampleLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.html")
	weir(t, "replay", "--policies", "examples/policies/web.yaml", "--policy", "search", "--key", "ip=remote_addr",
		"--where", "path=/search", "--report", name, "examples/logs/access.log")
	b := open(t, "file://"+name, wide)
	b.wants(map[string]string{"h1": "search denies 53 of 162 requests, sent by 2 of 34 keys.", "code.chosen": "5 per minute per ip"})
}
