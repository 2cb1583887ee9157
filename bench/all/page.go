package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirlimit/weir/bench/internal/machine"
	"github.com/weirlimit/weir/bench/internal/peers"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/report"
)

func writeHead(w io.Writer, m machine.Machine, now time.Time, quick bool) {
	fmt.Fprintln(w, "# Results")
	fmt.Fprintln(w, "\nWritten by `go run ./all` in this directory; do not edit. [README.md](README.md) says what is measured and how.")
	if quick {
		fmt.Fprintln(w, "\n**A quick run: these numbers mean little.**")
	}
	fmt.Fprintln(w)
	facts := report.Table("measured on", "")
	facts.Row("date", now.UTC().Format("2006-01-02 15:04 UTC"))
	facts.Row("commit", m.Commit)
	facts.Row("processor", fmt.Sprintf("%s, %d cores", m.CPU, m.Cores))
	facts.Row("memory", m.Memory)
	facts.Row("system", m.OS)
	facts.Row("Go", m.Go)
	facts.Row("load before", m.Load)
	facts.Print(w)
	writePeers(w)
}

// writePeers names the contestants with the versions this module is built with.
func writePeers(w io.Writer) {
	fmt.Fprint(w, "\n## Contestants\n\n")
	writeTable(w, peers.All())
	fmt.Fprint(w, "\nOn Redis:\n\n")
	var onRedis []peers.Peer
	for _, p := range redispeers.All() {
		onRedis = append(onRedis, p.Peer)
	}
	writeTable(w, onRedis)
	fmt.Fprint(w, "\nLooked for and left out:\n\n")
	for _, a := range peers.Absent() {
		fmt.Fprintf(w, "- %s: %s.\n", a.Module, a.Why)
	}
}

func writeTable(w io.Writer, contestants []peers.Peer) {
	table := report.Table("name", "module", "version", "decides by", "set up as")
	for _, p := range contestants {
		table.Row(p.Name, p.Module, p.Version(), string(p.Kind), p.Note)
	}
	table.Print(w)
}

func (s section) write(w io.Writer, args []string, took time.Duration, printed []byte, quick bool) {
	fmt.Fprintf(w, "\n## %s\n\n", s.title)
	command := strings.TrimSpace("go run ./" + s.program + " " + strings.Join(args, " "))
	fmt.Fprintf(w, "Command: `%s`, in %s.\n\n", command, took.Round(time.Second))
	if !quick {
		fmt.Fprint(w, s.intro)
	}
	w.Write(printed)
}
