package main

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/answer"
)

// explainOptions are the flags of weir explain.
type explainOptions struct{ server clientFlags }

func explainCommand() *cobra.Command {
	o := explainOptions{server: clientFlags{variable: "WEIR_ADMIN_TOKEN"}}
	cmd := newCommand("explain POLICY [key=value ...]",
		"Show what a running weir holds for a key", wantArgs(1, math.MaxInt, "POLICY"), o.run)
	o.server.addTo(cmd, defaultURL, "the `URL` of weir's admin listener, or unix:/path")
	return withJSON(cmd, "print the answer as one JSON object")
}

func (o *explainOptions) run(cmd *cobra.Command, args []string) error {
	values, err := readPairs(args[1:], "write the key as DIMENSION=VALUE")
	if err != nil {
		return err
	}
	query := url.Values{}
	for _, v := range values {
		name := v.Name
		if name == "limit" || name == "limits" { // the call has its own parameters with these names
			name = "key." + name
		}
		query.Set(name, v.Value)
	}
	client, err := o.server.newClient(requestTimeout)
	if err != nil {
		return err
	}
	h := new(shownHistory)
	path := "/v1/keys/" + url.PathEscape(args[0]) + "?" + query.Encode()
	a, err := client.call(cmd.Context(), http.MethodGet, path, nil, h, adminElsewhere)
	if err != nil {
		return err
	}
	if h.Limits == nil {
		return usage(adminElsewhere,
			"%s is not a weir of this version: its answer does not list the limits", client.address)
	}
	out := printable{cmd.OutOrStdout()}
	if wantsJSON(cmd) {
		_, err = out.Write(a.body)
		return err
	}
	var b strings.Builder
	h.write(&b, client.address)
	_, err = out.Write([]byte(b.String()))
	return err
}

// shownHistory has the members of an answer of GET /v1/keys/{policy} that are printed.
type shownHistory struct {
	shownAnswer
	At      time.Time           `json:"at"`
	RoomAt  time.Time           `json:"room_at"` // zero = never
	Blocked time.Time           `json:"blocked_until"`
	Limits  []shownLimitHistory `json:"limits"`
}

// shownLimitHistory is the state of a limit with its entries, holds and appointments.
type shownLimitHistory struct {
	shownLimit
	Remaining int64     `json:"remaining"`
	RoomAt    time.Time `json:"room_at"` // zero = never
	Blocked   time.Time `json:"blocked_until"`
	Start     time.Time `json:"window_start"`
	End       time.Time `json:"window_end"`

	Entries      []shownEntry `json:"entries"`
	Older        int64        `json:"entries_left_off"` // older entries that the answer omits
	Holds        []shownEntry `json:"holds"`
	OlderHolds   int64        `json:"holds_left_off"` // older holds that the answer omits
	Appointments []shownEntry `json:"appointments"`
	Later        int64        `json:"appointments_left_off"` // later ones that the answer omits
}

// shownEntry is an entry, a hold or an appointment.
type shownEntry struct {
	At          time.Time `json:"at"`
	N           int64     `json:"n"`           // units
	Until       time.Time `json:"until"`       // the latest end of a hold
	Reservation string    `json:"reservation"` // the reservation of a hold; "" if unknown
}

// mostEntries bounds each table of a limit in the text. It has the newest entries and holds,
// and the earliest appointments. --json has up to 1,000 of each.
const mostEntries = 20

// write writes the history as text: the verdict, the instant at which room appears, and the
// limits with their entries.
func (h *shownHistory) write(b *strings.Builder, address string) {
	verdict := "denied"
	if h.Allowed {
		verdict = "allowed"
	}
	fmt.Fprintf(b, "would be %s: %s\n", verdict, h.Why)
	fmt.Fprintf(b, "  at %s by weir at %s\n", exactTime(h.At), address)
	h.writeApplied(b)
	if !h.Blocked.IsZero() {
		fmt.Fprintf(b, "  blocked until %s\n", h.timeAndWait(h.Blocked))
	}
	fmt.Fprintf(b, "  room for one unit: %s\n\n", h.timeAndWait(h.RoomAt))
	rows := [][]string{{"LIMIT", "USED", "MAX", "WINDOW", "ROOM AT"}}
	for i := range h.Limits {
		l := &h.Limits[i]
		most := cmp.Or(l.Burst, l.Max)
		row := []string{l.Name, number(l.Used), number(most), l.window(), h.timeAndWait(l.RoomAt)}
		rows = append(rows, row)
	}
	writeTable(b, "lrrrl", rows)
	for i := range h.Limits {
		h.writeLimit(b, &h.Limits[i])
	}
}

// writeLimit writes the block, the bucket, the window and the entries of a limit, as far as it
// has them.
func (h *shownHistory) writeLimit(b *strings.Builder, l *shownLimitHistory) {
	if !l.Blocked.IsZero() {
		fmt.Fprintf(b, "\n%s: blocked until %s\n", l.Name, h.timeAndWait(l.Blocked))
	}
	if l.Burst > 0 {
		fmt.Fprintf(b, "\n%s: %d of %d in the bucket, full %s\n",
			l.Name, l.Remaining, l.Burst, waitText(l.ResetAfter))
	}
	if !l.End.IsZero() {
		fmt.Fprintf(b, "\n%s: the window began at %s and ends at %s\n",
			l.Name, exactTime(l.Start), h.timeAndWait(l.End))
	}
	h.writeEntries(b, l)
	h.writeHolds(b, l)
	h.writeAppointments(b, l)
}

func (h *shownHistory) writeEntries(b *strings.Builder, l *shownLimitHistory) {
	entries, older := newest(l.Entries, l.Older)
	rows := [][]string{{"ENTRY", "UNITS", "LEAVES"}}
	for _, e := range entries {
		leaves := l.End
		if leaves.IsZero() {
			leaves = e.At.Add(time.Duration(l.Window) * time.Millisecond)
		}
		rows = append(rows, []string{exactTime(e.At), number(e.N), h.timeAndWait(leaves)})
	}
	l.writeRows(b, "lrl", rows)
	writeLeftOff(b, older, "older")
}

func (h *shownHistory) writeHolds(b *strings.Builder, l *shownLimitHistory) {
	holds, older := newest(l.Holds, l.OlderHolds)
	rows := [][]string{{"HELD SINCE", "UNITS", "ENDS, AT THE LATEST", "RESERVATION"}}
	for _, e := range holds {
		end := h.timeAndWait(e.Until)
		rows = append(rows, []string{exactTime(e.At), number(e.N), end, e.Reservation})
	}
	l.writeRows(b, "lrll", rows)
	writeLeftOff(b, older, "older")
}

func (h *shownHistory) writeAppointments(b *strings.Builder, l *shownLimitHistory) {
	ahead := l.Appointments[:min(mostEntries, len(l.Appointments))]
	rows := [][]string{{"APPOINTMENT", "UNITS", "BEGINS"}}
	for _, e := range ahead {
		rows = append(rows, []string{exactTime(e.At), number(e.N), h.timeAndWait(e.At)})
	}
	l.writeRows(b, "lrl", rows)
	writeLeftOff(b, l.Later+int64(len(l.Appointments)-len(ahead)), "later")
}

// newest returns the last mostEntries entries, and the number of older ones. older is the
// number of entries that the answer omits.
func newest(entries []shownEntry, older int64) ([]shownEntry, int64) {
	cut := max(0, len(entries)-mostEntries)
	return entries[cut:], older + int64(cut)
}

// writeRows writes a table of the limit, or nothing if the heading is its only row.
func (l *shownLimitHistory) writeRows(b *strings.Builder, align string, rows [][]string) {
	if len(rows) > 1 {
		fmt.Fprintf(b, "\n%s:\n", l.Name)
		writeTable(b, align, rows)
	}
}

// writeLeftOff writes the number of entries that the table omits, unless it is 0.
func writeLeftOff(b *strings.Builder, n int64, word string) {
	if n > 0 {
		fmt.Fprintf(b, "and %d %s; --json shows up to 1,000\n", n, word)
	}
}

// timeAndWait returns an instant and the wait for it from the instant of the answer, such as
// "2026-11-20 13:08:31.000005 UTC (in 1m)". A past instant is "now", the zero instant "never".
func (h *shownHistory) timeAndWait(at time.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case !at.After(h.At):
		return "now"
	}
	return exactTime(at) + " (in " + answer.Wait(at.Sub(h.At)) + ")"
}

// exactTime returns an instant to the microsecond, in the time zone of this machine.
func exactTime(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05.000000 MST") }
