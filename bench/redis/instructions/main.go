// Command instructions counts the instructions that a Redis server executes for a decision, in this
// tree and at another git revision. It needs valgrind and redis-server:
//
//	go run ./redis/instructions -rev HEAD~1
//
// Instructions are exact to about a percent on any machine, however busy it is. Processor time varies
// by more than the changes that matter in a script. The trade-off: instructions are no time,
// because a missed cache is not counted. Command redis measures time.
//
// Each revision is measured by the workload of this tree, on a server of its own under callgrind.
// Only the thread of the server's event loop counts: it reads, decides, writes and replies.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	rev := flag.String("rev", "HEAD", "compare with this git `revision`")
	only := flag.String("only", "", "measure only the cells with `text` in their names")
	child := flag.Bool("child", false, "measure this tree and print its figures (used by the program itself)")
	flag.Parse()
	err := error(nil)
	if *child {
		err = measure(*only, os.Stdout)
	} else {
		err = compare(*rev, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

// figure is the cost of a cell: instructions of a decision, or bytes of a key.
type figure struct {
	cell  string
	value float64
}

// compare prints the figures of this tree beside those of a revision.
func compare(rev, only string) error {
	temp, err := os.MkdirTemp("", "weir-instructions")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	old, err := buildRevision(rev, temp)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	before, err := figuresOf(old, only)
	if err != nil {
		return err
	}
	now, err := figuresOf(self, only)
	if err != nil {
		return err
	}
	values := map[string]float64{}
	for _, f := range before {
		values[f.cell] = f.value
	}
	fmt.Printf("| | %s | this tree | ratio |\n| --- | --- | --- | --- |\n", rev)
	for _, f := range now {
		fmt.Printf("| %s | %.0f | %.0f | %.2f |\n", f.cell, values[f.cell], f.value, f.value/values[f.cell])
	}
	return nil
}

// buildRevision builds this program against a revision of the module, below dir.
func buildRevision(rev, dir string) (program string, err error) {
	root, err := run("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	root = strings.TrimSpace(root)
	archive := filepath.Join(dir, "revision.tar")
	if _, err = run(root, "git", "archive", "--output", archive, rev); err != nil {
		return "", err
	}
	tree := filepath.Join(dir, "tree")
	here := filepath.Join("bench", "redis", "instructions")
	if err = os.MkdirAll(tree, 0o755); err != nil {
		return "", err
	}
	if _, err = run(tree, "tar", "-xf", archive); err != nil {
		return "", err
	}
	if err = os.RemoveAll(filepath.Join(tree, here)); err != nil {
		return "", err
	}
	if err = os.CopyFS(filepath.Join(tree, here), os.DirFS(filepath.Join(root, here))); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "program")
	_, err = run(filepath.Join(tree, "bench"), "go", "build", "-o", program, "./redis/instructions")
	return program, err
}

// figuresOf runs a build of this program and reads its figures.
func figuresOf(program, only string) ([]figure, error) {
	out, err := run("", program, "-child", "-only", only)
	if err != nil {
		return nil, err
	}
	var all []figure
	for line := range strings.Lines(out) {
		cell, text, _ := strings.Cut(strings.TrimSpace(line), "\t")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s printed %q: %w", program, line, err)
		}
		all = append(all, figure{cell, value})
	}
	return all, nil
}

// run runs a command in a directory and returns its output.
func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, errs.String())
	}
	return out.String(), nil
}
