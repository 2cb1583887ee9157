package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestNextCommandsOfSuggest: the commands that suggest prints run without changes. They write
// the line that was shown, and decide the requests that were counted.
func TestNextCommandsOfSuggest(t *testing.T) {
	const head, requests = "10.0.0.1 - - [05/Mar/2026:08:00:0%d +0000] \"GET /%s HTTP/1.1\" 200 1 \"-\" \"-\" \"%s\"\n", 40
	log, object, trace := "", "", ""
	for i := range requests {
		ip := fmt.Sprintf("203.0.113.%d", i%20)
		log += fmt.Sprintf(head, i%10, "search", ip) + fmt.Sprintf(head, i%10, "other", ip)
		object += fmt.Sprintf("{\"ts\":%d,\"peer\":%q}\n", 1772697600+i, ip)
		trace += fmt.Sprintf("{\"at_us\":%d,\"policy\":\"find\",\"key\":{\"ip\":%q}}\n", 1772697600000000+i, ip)
	}
	for flags, want := range map[string]string{
		"-k ip=remote_addr --trusted-proxies 10.0.0.0/8 --where path=/search --reorder 20s -- -n.log":              "",
		"-k ip=remote_addr --field remote_addr=peer --format nginx-json --spare 50% --zone Europe/Berlin o.json":   "",
		"-k ip=remote_addr --trusted-proxies 10.0.0.0/8 --where path=/search --limit 7,9 --policy 'find' ./-n.log": "",
		"-k ip=key.ip --where policy=find --units 2 t.jsonl":                                                       "find",
		"-k ip=key.ip --policy find t.jsonl":                                                                       "find",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"-n.log": log, "o.json": object, "t.jsonl": trace} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		}
		shell := func(command string) string {
			cmd := exec.Command("sh", "-c", command+" 2>/dev/null")
			cmd.Dir = dir
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%s: %s: %v", flags, command, err)
			}
			return string(out)
		}
		shown, commands, _ := strings.Cut(shell("weir suggest --window 1m "+flags), "\nNext:\n")
		next := strings.Split(strings.TrimSpace(commands), "\n")
		if len(next) != 3 {
			t.Fatalf("%s: got %q, want 3 commands", flags, next)
		}
		write, _, _ := strings.Cut(next[0], "#")
		if again, _, _ := strings.Cut(shell(write), "\nNext:\n"); strings.ReplaceAll(again, "./", "") != strings.ReplaceAll(shown, "./", "") {
			t.Errorf("%s: %s shows\n%s, want\n%s", flags, write, again, shown)
		}
		shell(next[1])
		run, _, _ := strings.Cut(next[2], "#")
		counted := fmt.Sprintf("\n%d requests: %d allowed", requests, requests)
		if want != "" {
			run, counted = run+" -d answers", fmt.Sprintf("%d lines over", requests)
		}
		decided := shell(run)
		if !strings.Contains("\n"+decided, counted) || !strings.Contains(decided, " 0 errors") || want != "" && !strings.Contains(decided, "\n"+want+" ") {
			t.Errorf("%s: %s prints\n%s, want %q of %q", flags, run, decided, counted, want)
		}
	}
}
