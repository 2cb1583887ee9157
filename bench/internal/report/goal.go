package report

import (
	"fmt"
	"io"
	"math"
)

// Goal is a bound with its measurement.
type Goal struct {
	Text     string
	Bound    float64
	AtMost   bool    // Bound is an upper bound; otherwise a lower one
	Measured float64 // NaN = not measured
	Where    string  // a remark about the measurement
}

// Goals prints one row per goal.
func Goals(w io.Writer, goals []Goal) {
	table := Table("goal", "bound", "measured", "met")
	for _, g := range goals {
		table.Row(g.Text, g.limit(), Decimal(g.Measured, 2)+g.Where, g.Verdict())
	}
	table.Print(w)
}

func (g Goal) limit() string {
	if g.AtMost {
		return fmt.Sprintf("≤ %.4g", g.Bound)
	}
	return fmt.Sprintf("≥ %.4g", g.Bound)
}

// Verdict returns in words whether the measured number is within the bound.
func (g Goal) Verdict() string {
	switch {
	case math.IsNaN(g.Measured):
		return "not measured"
	case g.AtMost && g.Measured <= g.Bound, !g.AtMost && g.Measured >= g.Bound:
		return "yes"
	}
	return "**no**"
}

// Decimal formats a number with places digits after the point. A missing measurement is a
// dash.
func Decimal(v float64, places int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return fmt.Sprintf("%.*f", places, v)
}

// Count formats a whole number with commas: 1,234,567.
func Count(v float64) string {
	text := Decimal(v, 0)
	if text == "–" {
		return text
	}
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
