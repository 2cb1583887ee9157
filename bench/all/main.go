// Command all runs every comparison and writes its tables to results.csv, with machine
// and, of each section, date, commit and command. RESULTS.md is the short page of them.
//
//	go run ./all          writes results.csv, RESULTS.md and scoreboard.svg; about 50 minutes
//	go run ./all -sections scoreboard,speed -rounds 3
//	                      replaces these sections and leaves the others
//	go run ./all -page    writes RESULTS.md from results.csv and runs nothing
//	go run ./all -quick   prints a short run to stdout; about five minutes
//
// Run it in the directory of this module, on a machine with nothing else to do.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
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
	args    []string // in a full run
	rounds  bool     // the program has the flag -rounds

	headline string // for the summary, with %s for each figure
	figures  []figure
	compared []comparison
	tables   []string // shown in whole
}

// Files that a full run writes.
const (
	results = "RESULTS.md"
	raw     = "results.csv"
	picture = "scoreboard.svg"
)

// Tables that are compared or shown.
const (
	processorTime = "Processor time of a decision, Weir = 1.00"
	redisRates    = ": decisions a second, by callers"
	diskRates     = "Decisions a second by the clock, Pebble = 1"
	diskTime      = "Microseconds of processor time a decision"
)

// sections lists all programs in the order of RESULTS.md.
var sections = []section{
	{
		title: "What “20 per second” lets through", program: "scoreboard", args: []string{"-svg", picture},
		headline: "most grants in one second, limit 20: Weir %s, x/time/rate %s, throttled %s, ulule/limiter %s",
		figures:  []figure{{"weir", 2}, {"x/time/rate", 2}, {"throttled", 2}, {"ulule/limiter", 2}},
	},
	{
		title: "What a decision costs in process", program: "speed", rounds: true,
		headline: "processor time on 10,000 keys of 30 live entries, 1 goroutine, Weir = 1.00: x/time/rate %s, throttled %s, ulule/limiter %s, plain exact log %s",
		figures:  []figure{{"x/time/rate", 3}, {"throttled", 3}, {"ulule/limiter", 3}, {"plain exact log", 3}},
		compared: []comparison{
			{table: processorTime, weir: "weir"},
			{table: "Time of a decision by the clock, Weir = 1.00", weir: "weir"},
			{table: "Heap and collector, 1,000,000 keys of one entry", weir: "weir"},
		},
		tables: []string{processorTime},
	},
	{
		title: "What a decision costs on Redis", program: "redis", rounds: true,
		headline: "decisions a second on 10,000 keys, redis_rate = 1.00: Weir %s with 1 caller, %s with 64, %s with 512",
		figures:  []figure{{"weir, rueidis", 1}, {"weir, rueidis", 3}, {"weir, rueidis", 4}},
		compared: []comparison{
			{table: "10,000 keys" + redisRates, weir: "weir, rueidis", more: true},
			{table: "10,000 keys, all denied" + redisRates, weir: "weir, rueidis", more: true},
			{table: "1 hot key, all allowed" + redisRates, weir: "weir, rueidis", more: true},
			{table: "1 hot key at its limit" + redisRates, weir: "weir, rueidis", more: true},
			{table: "The server's part alone: processor time of its main thread", weir: "weir, caller's clock"},
			{table: "Bytes stored", weir: "weir, caller's clock"},
			{table: "Bytes to a replica, a decision", weir: "weir, caller's clock"},
			{table: "The longest script, many entries expiring at once", weir: "weir, caller's clock"},
			{table: "What is let through", weir: "weir, rueidis"},
		},
		tables: []string{"10,000 keys" + redisRates},
	},
	{
		title: "What a call costs the rate limit service", program: "grpc", rounds: true,
		headline: "processor time of the server, 16 callers, an empty gRPC call = 1.00: in memory %s, on Redis %s",
		figures:  []figure{{"granted, 10,000 keys | 16 | weir, memory", 2}, {"granted, 10,000 keys | 16 | weir, redis", 2}},
	},
	{
		title: "What a decision costs over HTTP, and what the process takes", program: "service", rounds: true,
		headline: "processor time of the server, plain net/http = 1.00: POST /v1/check %s, GET /gate %s",
		figures:  []figure{{"POST /v1/check, allowed", 2}, {"GET /gate, 204", 2}},
	},
	{
		title: "What a decision costs Redis clients", program: "resp", rounds: true,
		headline: "processor time of the server, 16 callers, gRPC = 1.00: WEIR.CHECK %s, in a pipeline %s",
		figures:  []figure{{"16 | WEIR.CHECK, a connection each", 2}, {"16 | WEIR.CHECK, 16 in a pipeline", 2}},
	},
	{
		title: "What a limit costs an application in Node", program: "node", rounds: true,
		headline: "one Express application, 50 connections: requests a second beside rate-limiter-flexible on Redis %s, beside fetch %s; " +
			"processor time of a call beside ioredis %s",
		figures: []figure{
			{"requests a second beside rate-limiter-flexible on Redis", 2},
			{"requests a second beside fetch", 2},
			{"processor time of Node for a call, beside ioredis", 2},
		},
		compared: []comparison{
			{table: "Requests a second of one Express application", weir: "weirlimit", more: true},
			{table: "Processor time of Node for a call", weir: "weirlimit"},
		},
	},
	{
		title: "What a decision costs that survives a restart", program: "disk", rounds: true,
		headline: "decisions a second with a sync for each, 64 / 256 callers, Pebble = 1.00: Weir %s / %s, bbolt %s / %s, tidwall/wal %s / %s",
		figures:  []figure{{"weirdisk, SyncAlways", 3}, {"weirdisk, SyncAlways", 4}, {"bbolt", 3}, {"bbolt", 4}, {"tidwall/wal", 3}, {"tidwall/wal", 4}},
		compared: []comparison{{table: diskRates, weir: "weirdisk, SyncAlways", more: true}, {table: diskTime, weir: "weirdisk, SyncAlways"}},
		tables:   []string{diskRates},
	},
	{
		title: "What files and traces cost", program: "files", rounds: true,
		headline: "%s trace lines a second and core; %s s to suggest limits for an access log of 10,000,000 lines",
		figures:  []figure{{"replay, 10,000 keys", 2}, {"suggest, access log of 100,000 clients", 1}},
	},
}

func main() {
	quick := flag.Bool("quick", false, "short runs, printed to stdout; no file is written")
	only := flag.String("sections", "", "comma-separated `programs` to run, such as scoreboard,speed; default: all of them")
	again := flag.Bool("page", false, "run nothing; write RESULTS.md from results.csv")
	rounds := flag.Int("rounds", 0, "number of interleaved `rounds`; default: that of each program")
	flag.Parse()
	some, err := chosen(*only, *rounds)
	if err != nil {
		exit(err, false)
	}
	if *again {
		some = nil
	}
	cells, failed, err := run(*quick, some)
	if err != nil {
		exit(err, false)
	}
	if *quick {
		fmt.Print(page(cells, true))
		exit(nil, failed)
	}
	before, err := readCells(raw)
	if err == nil {
		cells = merged(before, cells)
		err = errors.Join(os.WriteFile(raw, csvOf(cells), 0o644), os.WriteFile(results, []byte(page(cells, false)), 0o644))
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
// the program has that flag. An unknown name is an error.
func chosen(only string, rounds int) (some []section, err error) {
	names := strings.Split(only, ",")
	for _, name := range names {
		if only != "" && !slices.ContainsFunc(sections, func(s section) bool { return s.program == name }) {
			return nil, fmt.Errorf("-sections %q: %q is none of the programs that the table of bench/README.md lists last", only, name)
		}
	}
	for _, s := range sections {
		if only != "" && !slices.Contains(names, s.program) {
			continue
		}
		if rounds > 0 && s.rounds {
			s.args = append(slices.Clone(s.args), "-rounds", strconv.Itoa(rounds))
		}
		some = append(some, s)
	}
	return some, nil
}

// run runs the sections. failed reports whether Weir missed a goal in any of them.
func run(quick bool, some []section) (cells []cell, failed bool, err error) {
	if some == nil {
		return nil, false, nil
	}
	bin, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(bin)
	cells = contestantCells()
	if len(some) == len(sections) {
		cells = append(cells, machineCells(machine.Here(generated...))...)
	}
	for _, s := range some {
		measured, bad, err := s.run(bin, quick)
		if err != nil {
			return nil, false, err
		}
		cells, failed = append(cells, measured...), failed || bad
	}
	return cells, failed, nil
}

// generated lists the files that may change without another measured commit.
var generated = []string{"bench/" + results, "bench/" + raw, "bench/" + picture}

// run builds and runs the program, and returns the cells of its section.
func (s section) run(bin string, quick bool) (cells []cell, failed bool, err error) {
	program := filepath.Join(bin, s.program)
	if out, err := exec.Command("go", "build", "-o", program, "./"+s.program).CombinedOutput(); err != nil {
		return nil, false, fmt.Errorf("building %s (run this in the directory bench): %w\n%s", s.program, err, out)
	}
	args := s.args
	if quick {
		args = []string{"-quick"}
	}
	here := machine.Here(generated...)
	var out bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	start := time.Now()
	err = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code == 1 {
		failed, err = true, nil // it ran, and its output names the missed goals
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", s.program, err)
	}
	command := strings.TrimSpace("go run ./" + s.program + " " + strings.Join(args, " "))
	cells = runCells(s.title, here, command, start, time.Since(start))
	return append(cells, printed(s.title, out.String())...), failed, nil
}
