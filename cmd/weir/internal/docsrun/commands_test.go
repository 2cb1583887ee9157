//go:build unix

package docsrun_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestReadmeQuickStart runs `make run` and the README's request three times, unchanged
// except for the port: 7070 may be in use here.
func TestReadmeQuickStart(t *testing.T) {
	needs.Time(t)
	if !strings.Contains(read(t, "README.md"), "`make run`") {
		t.Fatal("the README does not name `make run`")
	}
	cmd := exec.Command("make", "run", "LISTEN=127.0.0.1:0", "BIN="+linked(t))
	cmd.Env = environment()
	address := serving(t, cmd, 1)[0]
	request := command(t, "README.md", "curl")
	script := strings.ReplaceAll(request, "http://127.0.0.1:7070", "http://"+address)
	if script == request {
		t.Fatalf("no http://127.0.0.1:7070 in the README's %q", request)
	}
	var last answer
	for i := range 3 {
		got := answers(t, shell(t, ".", strings.Replace(script, "curl ", "curl -s ", 1)))
		if len(got) != 1 || got[0].Allowed != (i < 2) {
			t.Fatalf("answer %d is %+v, want allowed %t", i+1, got, i < 2)
		}
		last = got[0]
	}
	checkShownAnswer(t, last.text)
}

// linked returns a directory with weir. A make that builds it there has nothing to do, so it starts
// the server at once, also on a busy machine.
func linked(t *testing.T) (bin string) {
	t.Helper()
	program.Path(t) // compiles
	bin = t.TempDir()
	cmd := exec.Command("make", "build", "BIN="+bin)
	cmd.Dir = root
	cmd.Env = environment()
	output(t, cmd)
	return bin
}

// checkShownAnswer checks that the members of the README's JSON answer are those of a real
// answer. Only the waits may differ.
func checkShownAnswer(t *testing.T, real string) {
	t.Helper()
	blocks := markdown.Texts(read(t, "README.md"), "json")
	if len(blocks) != 1 {
		t.Fatalf("the README has %d JSON answers, want 1", len(blocks))
	}
	wait := regexp.MustCompile(`[0-9.]+s$`)
	members := func(text string) (all map[string]any) {
		must.Do(t, json.Unmarshal([]byte(text), &all))
		if ms, ok := all["retry_after_ms"].(float64); !ok || ms <= 0 || ms > 10_000 {
			t.Errorf("%s: want a wait of at most 10 s", text)
		}
		delete(all, "retry_after_ms")
		all["why"] = wait.ReplaceAllString(fmt.Sprint(all["why"]), "")
		return all
	}
	answer := members(real)
	for member, want := range members(blocks[0]) {
		if answer[member] != want {
			t.Errorf("the README shows %s %v, and the service answers %v", member, want, answer[member])
		}
	}
}

// command returns the only block of shell commands in the page that contains the words.
func command(t *testing.T, page, words string) string {
	t.Helper()
	var found []string
	for _, c := range markdown.Texts(read(t, page), "sh") {
		if strings.Contains(c, words) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks of commands with %q, want 1", page, len(found), words)
	}
	return found[0]
}

// TestSeveralProcesses runs two servers on one Redis by the commands of docs/redis.md, except
// for the three ports, which may be in use here.
func TestSeveralProcesses(t *testing.T) {
	servers, requests := command(t, "docs/redis.md", "make build"), command(t, "docs/redis.md", `"bob"`)
	bin := linked(t)
	ours := strings.NewReplacer("127.0.0.1:6379", redistest.Start(t).Addr, "127.0.0.1:7070", "127.0.0.1:0", "127.0.0.1:7071", "127.0.0.1:0",
		"bin/weir", filepath.Join(bin, "weir"))
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", ours.Replace(servers)+"wait")
	cmd.Env = append(environment(), "BIN="+bin)
	addresses := serving(t, cmd, 2)

	// On a crowded machine an answer may be degraded. The test then retries with other
	// users.
	for try := 0; ; try++ {
		ask := strings.NewReplacer("curl ", "curl -s ", `"bob"`, fmt.Sprintf(`"bob%d"`, try), "127.0.0.1:7070", addresses[0], "127.0.0.1:7071", addresses[1]).Replace(requests)
		got := answers(t, shell(t, ".", ask))
		if len(got) == 2 && (got[0].Status == 503 || got[1].Status == 503) && try < 50 {
			continue
		}
		if len(got) != 2 || !got[0].Allowed || got[1].Allowed || got[1].Remaining != 4 {
			t.Errorf("got %+v, want the first allowed, the second denied, and 4 left", got)
		}
		return
	}
}

// TestReadmeFirstDenial runs the README's first command in a checkout with no module downloaded.
func TestReadmeFirstDenial(t *testing.T) {
	const first = "go run ./examples/hello"
	if !strings.Contains(read(t, "README.md"), "`"+first+"`") {
		t.Fatalf("the README does not name %q", first)
	}
	out := shell(t, root, "GOMODCACHE='"+t.TempDir()+"' "+first)
	if !strings.HasSuffix(out, "\ndenied, try again in 1m0s\n") {
		t.Errorf("it printed:\n%s", out)
	}
}

// TestReadmeCheckout uses the module from a program beside it, offline, with the README's
// command only.
func TestReadmeCheckout(t *testing.T) {
	edit := command(t, "README.md", "go mod edit")
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	script := strings.Replace(edit, "=../weir", "="+checkout, 1)
	if script == edit {
		t.Fatalf("no =../weir in the README's %q", edit)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), read(t, "examples/push/main.go"))
	shell(t, dir, "go mod init example.com/program")
	shell(t, dir, script)
	shell(t, dir, "GOFLAGS=-mod=mod go build -o program .")
	if _, err := os.Stat(filepath.Join(dir, "go.sum")); err == nil {
		t.Errorf("the program needs a go.sum:\n%s", shell(t, dir, "cat go.sum"))
	}
	if out := shell(t, dir, "./program"); !strings.Contains(out, "push 12 sent") {
		t.Errorf("the program printed:\n%s", out)
	}
}

// answer is what this test reads of an answer to /v1/check.
type answer struct {
	Allowed   bool  `json:"allowed"`
	Remaining int64 `json:"remaining"`
	Status    int   `json:"status"` // HTTP status of a problem document
	text      string
}

func answers(t *testing.T, out string) []answer {
	t.Helper()
	var all []answer
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("not an answer: %q: %v", line, err)
		}
		a.text = strings.TrimSpace(line)
		all = append(all, a)
	}
	return all
}

// shell runs a script in dir and returns its standard output.
func shell(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(environment(), "GOPROXY=off")
	return output(t, cmd)
}

var listens = regexp.MustCompile(`(?m)^weir listens on http://(\S+)$`)

// serving runs a command until the test ends, and returns the addresses of the n servers that it
// starts.
func serving(t *testing.T, cmd *exec.Cmd, n int) (addresses []string) {
	t.Helper()
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the command and its children
	s, err := program.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-s.Ended
		s.Wait()
	})
	must.Do(t, s.Await(func(output string) bool {
		addresses = nil
		for _, m := range listens.FindAllStringSubmatch(output, -1) {
			addresses = append(addresses, m[1])
		}
		return len(addresses) == n
	}))
	return addresses
}

// environment returns our environment without the variables of an outer make.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
}

// TestCommandsOfPages runs the commands of pages in order. The block behind each command is its
// output.
func TestCommandsOfPages(t *testing.T) {
	needs.Time(t)
	for page, want := range map[string]int{"docs/choosing.md": 3, "docs/replay.md": 1} {
		t.Setenv("DIR", t.TempDir())
		blocks, commands := markdown.Blocks(read(t, page)), 0
		for i, b := range blocks {
			if b.Language != "sh" {
				continue
			}
			commands++
			if i+1 == len(blocks) || blocks[i+1].Language == "sh" {
				t.Fatalf("%s: no output behind %s", page, b.Text)
			}
			command := "export TZ=UTC; " + strings.TrimSpace(b.Text)
			if got, shown := shell(t, root, command), blocks[i+1].Text; got != shown {
				t.Errorf("%s shows\n%s\nand %s prints\n%s", page, shown, command, got)
			}
		}
		if commands != want {
			t.Errorf("%s has %d commands, want %d", page, commands, want)
		}
	}
}

// TestClusterReport: `weir validate --cluster` prints the lines of docs/redis.md.
func TestClusterReport(t *testing.T) {
	printed := shell(t, "testdata/cluster", program.Path(t)+" validate --cluster weir.yaml")
	found := 0
	for _, b := range markdown.Blocks(read(t, "docs/redis.md")) {
		if !strings.HasPrefix(b.Text, "weir.yaml: ok") {
			continue
		}
		found++
		for line := range strings.Lines(b.Text) {
			if strings.TrimSpace(line) != "…" && !strings.Contains(printed, line) {
				t.Errorf("redis.md shows %q, and the command prints\n%s", line, printed)
			}
		}
	}
	if found != 1 {
		t.Errorf("redis.md shows %d outputs of weir validate --cluster, want one", found)
	}
}
