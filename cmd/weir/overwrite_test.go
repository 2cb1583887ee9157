package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestOutputsAreNoInputs: no file that is read is an output too, under another name or through
// standard input and output either. The files stay as they were.
func TestOutputsAreNoInputs(t *testing.T) {
	const line = "192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n"
	files := map[string]string{
		"p.yaml": onlySearch, "old.yaml": onlySearch, "in.log": line,
		"t.jsonl": `{"at_us":1,"policy":"search","key":{"ip":"a"}}` + "\n",
	}
	const replay, logs = "weir replay -p p.yaml ", "weir replay -p p.yaml -k ip=remote_addr "
	for command, want := range map[string]string{
		replay + "-d t.jsonl - <t.jsonl":                               "t.jsonl is a file to read",
		replay + "-d link t.jsonl":                                     "link is a file to read",
		replay + "-d p.yaml t.jsonl":                                   "p.yaml is a file to read",
		replay + "-d /dev/stdin - <>t.jsonl":                           "/dev/stdin is a file to read",
		replay + "-d - t.jsonl":                                        "- is no name of a file",
		replay + "t.jsonl >>t.jsonl":                                   "standard output is a file to read",
		replay + "- <t.jsonl >>t.jsonl":                                "standard output is a file to read",
		logs + "in.log >>in.log":                                       "standard output is a file to read",
		logs + "--report in.log - <in.log":                             "in.log is a file to read",
		logs + "--report p.yaml in.log":                                "p.yaml is a file to read",
		logs + "--against old.yaml --report old.yaml in.log":           "old.yaml is a file to read",
		logs + "--report - in.log":                                     "- is no name of a file",
		"weir suggest -k ip=remote_addr --report in.log - <in.log":     "in.log is a file to read",
		"weir suggest -k ip=remote_addr in.log >>in.log":               "standard output is a file to read",
		"weir suggest -k ip=remote_addr --write x --report ./x in.log": "--write and --report are one file",
	} {
		dir := t.TempDir()
		for name, text := range files {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		}
		must.Do(t, os.Symlink("t.jsonl", filepath.Join(dir, "link")))
		cmd := exec.Command("sh", "-c", "ulimit -f 100; "+command) // or a loop would fill the disk
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(string(out), want) || !strings.Contains(string(out), "\n  ") {
			t.Errorf("%s: got exit code %d and %.300q, want %q with a next step", command, code, out, want)
		}
		for name, text := range files {
			if got := must.Get(os.ReadFile(filepath.Join(dir, name)))(t); string(got) != text {
				t.Errorf("%s: %s has %.300q now", command, name, got)
			}
		}
		if all := must.Get(os.ReadDir(dir))(t); len(all) != len(files)+1 {
			t.Errorf("%s leaves %v", command, all)
		}
	}
	cmd := exec.Command("sh", "-c", replay+"-d /dev/null - </dev/null >/dev/null")
	cmd.Dir = t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(cmd.Dir, "p.yaml"), []byte(onlySearch), 0o666))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("devices are no files: %v: %s", err, out)
	}
}
