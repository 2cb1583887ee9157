package main

import (
	"fmt"
	"html"
	"strings"

	"github.com/weirlimit/weir/bench/internal/peers"
)

// Measures of the picture, in pixels.
const (
	wide    = 720
	labels  = 190 // names end here, bars begin
	top     = 52
	rowHigh = 24
	barHigh = 16
	perUnit = 11.0 // one grant
)

// picture draws the worst second of each contestant as a bar, readable on light and dark
// pages.
func picture(scores []*score) string {
	rows := ranked(scores)
	high := top + rowHigh*len(rows) + 14
	most := 0
	for _, s := range rows {
		most = max(most, s.worst())
	}
	unit := min(perUnit, float64(wide-labels-50)/float64(max(most, 1)))

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		wide, high, wide, high, html.EscapeString(summary(rows)))
	b.WriteString(style)
	fmt.Fprintf(&b, `<text class="t" x="12" y="22">What “%d per second” lets through in one second</text>`+"\n", limit)
	for i, s := range rows {
		drawRow(&b, s, top+i*rowHigh, unit)
	}
	x := labels + unit*limit
	fmt.Fprintf(&b, `<line class="l" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text class="s" x="%.1f" y="%d" text-anchor="middle">the limit</text>`+"\n",
		x, top-4, x, high-10, x, top-9)
	b.WriteString("</svg>\n")
	return b.String()
}

// style defines the colours for light pages and for dark ones.
const style = `<style>
text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}.s{font-size:11px;fill:#57606a}
.b{fill:#c9803a}.w{fill:#2a7f62}.l{stroke:#57606a;stroke-dasharray:3 3}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}.b{fill:#d29355}.w{fill:#3fa883}.l{stroke:#9198a1}}
</style>
`

func drawRow(b *strings.Builder, s *score, y int, unit float64) {
	class := "b"
	if s.peer.Name == peers.Weir || s.worst() <= limit {
		class = "w"
	}
	length := unit * float64(s.worst())
	middle := y + barHigh - 3
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text><rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/><text x="%.1f" y="%d">%d</text>`+"\n",
		labels-8, middle, html.EscapeString(s.peer.Name), class, labels, y, length, barHigh, labels+length+6, middle, s.worst())
}

// summary describes the picture in one sentence, for screen readers.
func summary(rows []*score) string {
	var parts []string
	for _, s := range rows {
		parts = append(parts, fmt.Sprintf("%s %d", s.peer.Name, s.worst()))
	}
	return fmt.Sprintf("Most grants inside one second for a limit of %d per second: %s", limit, strings.Join(parts, "; "))
}
