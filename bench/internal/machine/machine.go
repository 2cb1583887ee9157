// Package machine describes the machine and the checkout of a measurement.
package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Machine is the origin of measured numbers.
type Machine struct {
	CPU    string // model name
	Cores  int    // that this process may use
	Memory string
	OS     string // system, kernel and architecture
	Go     string
	Load   string // load averages over 1, 5 and 15 minutes before the measurement
	Commit string // the commit of the checkout, with a note if files differ from it
}

// Here describes this machine and the checkout in the current directory. Unknown values
// are "unknown". Changes of the files in generated, which the caller writes, do not count
// as uncommitted.
func Here(generated ...string) Machine {
	return Machine{
		CPU:    field("/proc/cpuinfo", "model name"),
		Cores:  runtime.NumCPU(),
		Memory: field("/proc/meminfo", "MemTotal"),
		OS:     fmt.Sprintf("%s, kernel %s, %s/%s", strings.Trim(field("/etc/os-release", "PRETTY_NAME"), `"`), kernel(), runtime.GOOS, runtime.GOARCH),
		Go:     runtime.Version(),
		Load:   load(),
		Commit: commit(generated),
	}
}

const unknown = "unknown"

// field returns the value of the first line "name: value" or "name=value".
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return unknown
	}
	for line := range strings.Lines(string(text)) {
		if i := strings.IndexAny(line, ":="); i > 0 && strings.TrimSpace(line[:i]) == name {
			return strings.TrimSpace(line[i+1:])
		}
	}
	return unknown
}

func kernel() string { return output("uname", "-r") }

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return unknown
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], ", ")
}

func commit(generated []string) string {
	id := output("git", "rev-parse", "--short=12", "HEAD")
	args := []string{"status", "--porcelain", "--", ":/"}
	for _, g := range generated {
		args = append(args, ":(top,exclude)"+g)
	}
	if id != unknown && output("git", args...) != "" {
		return id + " with uncommitted changes"
	}
	return id
}

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(out))
}
