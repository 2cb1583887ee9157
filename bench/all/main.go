// Command all runs every comparison and writes the output to RESULTS.md, with machine
// and, of each section, date, commit and command.
//
//	go run ./all          writes RESULTS.md and scoreboard.svg; about 45 minutes
//	go run ./all -sections scoreboard,speed -rounds 3
//	                      replaces these sections of RESULTS.md and leaves the others
//	go run ./all -summary computes the summary of RESULTS.md anew and runs nothing
//	go run ./all -quick   prints a short run to stdout; about four minutes
//
// Run it in the directory of this module, on a machine with nothing else to do.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/machine"
)

// section is one program of this module and its place in RESULTS.md.
type section struct {
	title   string
	program string   // its directory
	args    []string // of a full run
	rounds  bool     // the program has the flag -rounds
	intro   string   // Markdown between the heading and the program's output

	headline string // of the summary, with %s for each of the figures
	figures  []figure
}

// Files that a full run writes.
const (
	results = "RESULTS.md"
	picture = "scoreboard.svg"
)

// sections lists all programs in the order of RESULTS.md.
var sections = []section{
	{
		title: "What “20 per second” lets through", program: "scoreboard", args: []string{"-svg", picture},
		intro:    "![The most grants inside one second, limiter by limiter](" + picture + ")\n\n",
		headline: "most grants in one second, limit 20: Weir %s, x/time/rate %s, throttled %s, ulule/limiter %s",
		figures:  []figure{{"weir", 2}, {"x/time/rate", 2}, {"throttled", 2}, {"ulule/limiter", 2}},
	},
	{
		title: "What a decision costs in process", program: "speed", rounds: true,
		headline: "processor time on 10,000 keys, 1 goroutine, Weir = 1.00: x/time/rate %s, throttled %s, ulule/limiter %s, plain exact log %s",
		figures:  []figure{{"x/time/rate", 3}, {"throttled", 3}, {"ulule/limiter", 3}, {"plain exact log", 3}},
	},
	{
		title: "What a decision costs on Redis", program: "redis", rounds: true,
		headline: "decisions a second on 10,000 keys, redis_rate = 1.00: Weir %s with 1 caller, %s with 64, %s with 512",
		figures:  []figure{{"weir, rueidis", 1}, {"weir, rueidis", 3}, {"weir, rueidis", 4}},
	},
	{
		title: "What a call costs the rate limit service", program: "grpc", rounds: true,
		headline: "processor time of the server, 16 callers, an empty gRPC call = 1.00: in memory %s, on Redis %s",
		figures:  []figure{{"granted, 10,000 keys | 16 | weir, memory", 4}, {"granted, 10,000 keys | 16 | weir, redis", 4}},
	},
	{
		title: "What a decision costs over HTTP, and what the process takes", program: "service", rounds: true,
		headline: "processor time of the server, plain net/http = 1.00: POST /v1/check %s, GET /gate %s",
		figures:  []figure{{"POST /v1/check, allowed", 2}, {"GET /gate, 204", 2}},
	},
	{
		title: "What a decision costs Redis clients", program: "resp", rounds: true,
		headline: "processor time of the server, 16 callers, gRPC = 1.00: WEIR.CHECK %s, in a pipeline %s",
		figures:  []figure{{"16 | WEIR.CHECK, a connection each", 3}, {"16 | WEIR.CHECK, 16 in a pipeline", 3}},
	},
	{
		title: "What a decision costs that survives a restart", program: "disk", rounds: true,
		headline: "decisions a second with a sync for each, 64 / 256 callers, Pebble = 1.00: Weir %s / %s, bbolt %s / %s, tidwall/wal %s / %s",
		figures:  []figure{{"weirdisk, SyncAlways", 3}, {"weirdisk, SyncAlways", 4}, {"bbolt", 3}, {"bbolt", 4}, {"tidwall/wal", 3}, {"tidwall/wal", 4}},
	},
	{
		title: "What files and traces cost", program: "files", rounds: true,
		headline: "a file of 10,000 policies %s s; %s trace lines a second and core",
		figures:  []figure{{"validate, 10,000 policies", 1}, {"replay, 10,000 keys", 2}},
	},
}

func main() {
	quick := flag.Bool("quick", false, "short runs, printed to stdout; no file is written")
	only := flag.String("sections", "", "comma-separated `programs` to run, such as scoreboard,speed; default: all of them")
	summarize := flag.Bool("summary", false, "run nothing; compute the summary of RESULTS.md from its sections")
	rounds := flag.Int("rounds", 0, "number of interleaved `rounds`; default: that of each program")
	flag.Parse()
	if *summarize {
		page, err := os.ReadFile(results)
		if err == nil {
			err = deliver([]byte(withSummary(string(page))), false)
		}
		exit(err, false)
	}
	some := chosen(*only, *rounds)
	text, failed, err := run(*quick, some)
	if err == nil && len(some) < len(sections) && !*quick {
		text, err = merged(text, some)
	}
	if err == nil {
		err = deliver([]byte(withSummary(string(text))), *quick)
	}
	exit(err, failed)
}

// exit ends the process: with 2 after an error, with 1 if a section found Weir at fault.
func exit(err error, failed bool) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "all:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
	os.Exit(0)
}

// chosen returns the sections of the named programs, with the given number of rounds if
// the program has that flag.
func chosen(only string, rounds int) []section {
	var some []section
	for _, s := range sections {
		if only != "" && !slices.Contains(strings.Split(only, ","), s.program) {
			continue
		}
		if rounds > 0 && s.rounds {
			s.args = append(slices.Clone(s.args), "-rounds", strconv.Itoa(rounds))
		}
		some = append(some, s)
	}
	return some
}

// run runs the sections. failed reports whether Weir missed a goal in any of them.
func run(quick bool, sections []section) (text []byte, failed bool, err error) {
	bin, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(bin)
	var page bytes.Buffer
	writeHead(&page, machine.Here("bench/"+results, "bench/"+picture), quick)
	for _, s := range sections {
		bad, err := s.run(&page, bin, quick)
		if err != nil {
			return nil, false, err
		}
		failed = failed || bad
	}
	return page.Bytes(), failed, nil
}

// merged returns RESULTS.md with the sections of page in place of its own. Without that
// file it returns page.
func merged(page []byte, some []section) ([]byte, error) {
	before, err := os.ReadFile(results)
	if errors.Is(err, fs.ErrNotExist) {
		return page, nil
	}
	if err != nil {
		return nil, err
	}
	after := string(before)
	titles := []string{contestants}
	for _, s := range some {
		titles = append(titles, s.title)
	}
	for _, title := range titles {
		after = replaced(after, title, sectionOf(string(page), title))
	}
	return []byte(after), nil
}

// run builds and runs the program, and appends its section to page.
func (s section) run(page *bytes.Buffer, bin string, quick bool) (failed bool, err error) {
	program := filepath.Join(bin, s.program)
	if out, err := exec.Command("go", "build", "-o", program, "./"+s.program).CombinedOutput(); err != nil {
		return false, fmt.Errorf("building %s (run this in the directory bench): %w\n%s", s.program, err, out)
	}
	args := s.args
	if quick {
		args = []string{"-quick"}
	}
	here := machine.Here("bench/"+results, "bench/"+picture)
	var out bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	start := time.Now()
	err = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code == 1 {
		failed, err = true, nil // it ran, and its output names the missed goals
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.program, err)
	}
	s.write(page, here, args, start, time.Since(start), out.Bytes(), quick)
	return failed, nil
}

// deliver writes the page to its file, or to stdout.
func deliver(text []byte, quick bool) error {
	if quick {
		_, err := os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(results, text, 0o644)
}
