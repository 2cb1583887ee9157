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

// contestants is the title of the section that lists the contestants.
const contestants = "Contestants"

func writeHead(w io.Writer, m machine.Machine, quick bool) {
	fmt.Fprintln(w, "# Results")
	fmt.Fprintln(w, "\nWritten by `go run ./all` in this directory; do not edit. [README.md](README.md) describes the measurements.\n"+
		"Sections can be measured one at a time: the summary has the day and the commit of each.")
	if quick {
		fmt.Fprintln(w, "\n**A quick run: these numbers mean little.**")
	}
	fmt.Fprint(w, "\n## Machine\n\n")
	facts := report.Table("measured on", "")
	facts.Row("processor", fmt.Sprintf("%s, %d cores", m.CPU, m.Cores))
	facts.Row("memory", m.Memory)
	facts.Row("system", m.OS)
	facts.Row("Go", m.Go)
	facts.Print(w)
	writePeers(w)
}

// writePeers names the contestants with the versions this module is built with.
func writePeers(w io.Writer) {
	fmt.Fprint(w, "\n## "+contestants+"\n\n")
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

// write writes the section with its own date, commit and load, because sections can be
// measured one at a time.
func (s section) write(w io.Writer, m machine.Machine, args []string, start time.Time, took time.Duration, printed []byte, quick bool) {
	fmt.Fprintf(w, "\n## %s\n\n", s.title)
	command := strings.TrimSpace("go run ./" + s.program + " " + strings.Join(args, " "))
	fmt.Fprintf(w, "Command: `%s`, in %s, on %s, commit %s, load before %s.\n\n", command, took.Round(time.Second),
		start.UTC().Format("2006-01-02 15:04 UTC"), m.Commit, m.Load)
	if !quick {
		fmt.Fprint(w, s.intro)
	}
	w.Write(printed)
}

// sectionOf returns the section with the title, heading included; "" if there is none.
func sectionOf(page, title string) string {
	from, to := bounds(page, title)
	return page[from:to]
}

// replaced returns page with text in place of the section with the title, or at its end.
// There is one blank line between the section and the next, wherever text stood before.
func replaced(page, title, text string) string {
	from, to := bounds(page, title)
	text = strings.Trim(text, "\n") + "\n"
	before, after := strings.TrimRight(page[:from], "\n")+"\n\n", page[to:]
	if after != "" {
		text += "\n"
	}
	return before + text + after
}

// bounds returns the begin and end of the section with the title.
func bounds(page, title string) (from, to int) {
	heading := "\n## " + title + "\n"
	from = strings.Index(page, heading)
	if from < 0 {
		return len(page), len(page)
	}
	from++ // the line break before it belongs to the section before
	rest := page[from+len(heading)-1:]
	if next := strings.Index(rest, "\n## "); next >= 0 {
		return from, len(page) - len(rest) + next + 1
	}
	return from, len(page)
}
