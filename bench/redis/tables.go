package main

import (
	"fmt"
	"io"

	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/report"
)

// aloneTable prints the cost of the server's part alone.
func (p page) aloneTable(w io.Writer) {
	sizes := p.sizes(scale.entries, aloneName)
	if len(sizes) == 0 {
		return
	}
	heading(w, "The server's part alone: processor time of its main thread")
	fmt.Fprintf(w, "One decision a call, 64 calls in a pipeline, %d keys, %d with the longest logs. N entries fill the window, and at every decision one leaves and one enters. ", scale.logs, logs(scale.entries[len(scale.entries)-1]))
	fmt.Fprintf(w, "Each cell has the ratio to %s's script, the µs (noise), and the entries in a log at the end. The script and each form take turns of a few milliseconds, so the script's own row shows the noise.\n\n", redispeers.RedisRate)
	table := report.Table(bySize("form", sizes)...)
	for _, f := range redispeers.Forms() {
		row := []string{f.Name}
		for _, n := range sizes {
			name := aloneName(n)
			row = append(row, fmt.Sprintf("%s; %s; %s",
				report.Decimal(p.results.Median(name, f.Name, ofYardstick), 2),
				report.Decimal(p.results.Median(name, f.Name, serverCPU)/1000, 1),
				report.Count(p.results.Median(name, f.Name, entriesHeld))))
		}
		table.Row(row...)
	}
	table.Print(w)
	fmt.Fprintf(w, "\nForms that read the whole log at every decision were not measured beyond %s entries. Forms:\n", report.Count(readable))
	for _, f := range redispeers.Forms() {
		clock := "the callers' clocks"
		if f.ServerClock {
			clock = "the server's clock, so N is approximate"
		}
		fmt.Fprintf(w, "- *%s*: %s; %s.\n", f.Name, f.Note, clock)
	}
}

// sizes returns the elements of all with a measured workload.
func (p page) sizes(all []int, name func(int) string) []int {
	var played []int
	for _, n := range all {
		if p.played(name(n)) {
			played = append(played, n)
		}
	}
	return played
}

// bySize is a table's head: a word, then a column a size.
func bySize(word string, sizes []int) []string {
	head := []string{word}
	for _, n := range sizes {
		head = append(head, "N = "+report.Count(float64(n)))
	}
	return head
}

// memoryTable prints the memory of logs in the server.
func (p page) memoryTable(w io.Writer) {
	sizes := p.sizes(scale.entries, memoryName)
	if len(sizes) == 0 {
		return
	}
	heading(w, "Bytes stored")
	fmt.Fprint(w, "The server's used_memory of full logs of N entries a minute, with a key of 16 bytes and its TTL: bytes per entry, then bytes per key.\n\n")
	table := report.Table(bySize("form", sizes)...)
	for _, form := range memory()[0].Contestants {
		row := []string{form}
		for _, n := range sizes {
			row = append(row, report.Decimal(p.results.Median(memoryName(n), form, bytesPerEntry), 1)+"; "+
				report.Count(p.results.Median(memoryName(n), form, bytesPerKey)))
		}
		table.Row(row...)
	}
	table.Print(w)
}

// replicationTable prints the bytes that decisions send to a replica.
func (p page) replicationTable(w io.Writer) {
	if !p.played(replication) {
		return
	}
	heading(w, "Bytes to a replica, a decision")
	fmt.Fprintf(w, "%s.\n\n", replicas().About)
	head := []string{"form"}
	for _, n := range replicated {
		head = append(head, bytesGranted(n))
	}
	table := report.Table(append(head, bytesDenied)...)
	for _, form := range formNames() {
		row := []string{form}
		for _, metric := range append(head[1:], bytesDenied) {
			row = append(row, report.Decimal(p.results.Median(replication, form, metric), 0))
		}
		table.Row(row...)
	}
	table.Print(w)
}

// longestTable prints the longest scripts.
func (p page) longestTable(w io.Writer) {
	sizes := p.sizes(scale.expiring, longestName)
	if len(sizes) == 0 {
		return
	}
	heading(w, "The longest script, many entries expiring at once")
	fmt.Fprintf(w, "µs by the server's slow log: %s. The first number is with half of the entries expired, the second with all but the newest.\n\n", longest()[0].About)
	table := report.Table(bySize("form", sizes)...)
	for _, form := range longest()[0].Contestants {
		row := []string{form}
		for _, n := range sizes {
			row = append(row, report.Count(p.results.Median(longestName(n), form, longestHalf))+"; "+
				report.Count(p.results.Median(longestName(n), form, longestMost)))
		}
		table.Row(row...)
	}
	table.Print(w)
}

// attackTable prints the most that each contestant let through.
func (p page) attackTable(w io.Writer) {
	if !p.played(attacked) {
		return
	}
	a := attack()
	heading(w, "What is let through")
	fmt.Fprintf(w, "%s. The most grants of all rounds inside one span shorter than the window. They are counted from outside, so they are lower bounds.\n\n", a.About)
	table := report.Table("contestant", "decides by", "grants", "× limit")
	for _, c := range redispeers.All() {
		n := maxGrants(p.results, c.Name)
		table.Row(c.Name, string(c.Kind), report.Count(n), report.Decimal(n/attackLimit, 2))
	}
	table.Print(w)
}
