// Package report writes the result of weir suggest and weir replay as one HTML file.
//
// The file needs no network: style, script and data are inside. Its content security
// policy permits this style and this script by their hashes, and no connection. Sentences,
// policy lines and tables are text in the file, so they are readable without a script.
// The script draws the charts as SVG, sorts tables and moves the limit.
//
// A small script was preferred to a chart library. The page needs only bars and lines, and
// a library of which no part is used would still be in every file.
package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Page is the content of a report.
type Page struct {
	Title    string    // the window and the heading, such as "weir suggest"
	Sources  []Source  // the files, in the order of the command line
	Lines    int64     // lines that are neither blank nor comments
	Bad      int64     // lines that are not readable
	Requests int64     // requests with a decision
	Left     int64     // requests that a condition leaves out
	From, To time.Time // first and last request; zero without requests
	Notes    []string  // warnings, such as that of skipped requests
	Hours    []int64   // requests by hour of the day, 0 to 23; nil = no chart
	Zone     string    // for Hours, such as UTC
	Views    []View    // one for each window or policy, in the order of their tabs
	First    int       // the index of the view that the script shows first
	MaskKeys bool      // "key 1", "key 2", … replace the keys; equal keys have equal names
}

// Source is a file with the format of its lines.
type Source struct{ Name, Format string }

// View is the effect of limits on all keys: of a window for weir suggest, of a policy for
// weir replay. The script reads the fields with a name in JSON; they have no keys and no
// names from logs, except the policy line.
type View struct {
	Name       string      `json:"-"`          // on its tab, such as "1 minute"
	Reason     string      `json:"-"`          // the sentence that stands first
	Also       []string    `json:"-"`          // further sentences, one on each line
	Line       string      `json:"-"`          // the policy line to copy, from Limit on; "" = none
	Rest       string      `json:"rest"`       // Line without its limit; set by Render
	Per        string      `json:"per"`        // unit of the horizontal axis: "requests per minute"
	Limit      int64       `json:"limit"`      // the marked limit; 0 = none
	LimitWord  string      `json:"word"`       // beside the mark, such as "suggested"; "" = "limit"
	Requests   int64       `json:"requests"`   // requests with a decision
	Denied     int64       `json:"-"`          // requests, at the marked limit
	Keys       int64       `json:"keys"`       // all keys
	KeysDenied int64       `json:"-"`          // keys with at least one denial at the marked limit
	Low        int64       `json:"low"`        // greatest peak within the marked limit; 0 = unknown
	High       int64       `json:"high"`       // least peak above it; 0 = none or unknown
	Apart      bool        `json:"apart"`      // few heavy keys are above the limit, apart from the rest
	Peaks      []Bin       `json:"bins"`       // distribution of the peaks, ascending; empty = no chart
	Candidates []Candidate `json:"candidates"` // ascending; fewer than two = no slider
	Timeline   Timeline    `json:"timeline"`   // at the marked limit; others are in Candidate.Series
	Limits     []Limit     `json:"-"`          // denials by limit; empty = no table
	Rows       []Row       `json:"-"`          // keys in their first order; at most MaxRows are shown
}

// HasPeaks reports whether there is a chart of the peaks.
func (v *View) HasPeaks() bool { return len(v.Peaks) > 0 && v.Limit > 0 }

// HasPeak reports whether some row has a peak.
func (v *View) HasPeak() bool {
	return slices.ContainsFunc(v.Rows, func(r Row) bool { return r.Peak > 0 })
}

// Allowed returns the number of allowed requests.
func (v *View) Allowed() int64 { return v.Requests - v.Denied }

// RowsText describes the rows.
func (v *View) RowsText() string {
	n := int64(len(v.Rows))
	text := fmt.Sprintf("All %s.", grouped(n))
	if n < v.Keys {
		text = fmt.Sprintf("The first %s of %s keys.", grouped(n), grouped(v.Keys))
	}
	if v.HasPeak() {
		text += " The peak is the most " + shown(v.Per) + ", before any denial."
	}
	return text
}

// Bin counts the keys with a peak of From to To: the most units within any window.
type Bin struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	Keys int64 `json:"keys"`
}

// Candidate is the exact result of one limit.
type Candidate struct {
	Limit      int64   `json:"limit"`
	Denied     int64   `json:"denied"` // requests
	KeysDenied int64   `json:"keys"`
	Series     []int64 `json:"series,omitempty"` // Denied by the steps of View.Timeline; nil = unknown
}

// Timeline counts requests by equal steps of time.
type Timeline struct {
	Start   time.Time
	Width   time.Duration // width of a step
	Allowed []int64
	Denied  []int64 // as many as Allowed
}

// MarshalJSON returns an object with times in milliseconds.
func (t Timeline) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"from":    t.Start.UnixMilli(),
		"step":    t.Width.Milliseconds(),
		"allowed": t.Allowed,
		"denied":  t.Denied,
	})
}

// Limit counts the denials of one limit of a policy.
type Limit struct {
	Name, Line string
	Denied     int64
}

// Row is a key.
type Row struct {
	Key         string    // any bytes; shown as text
	Peak        int64     // units in its fullest window; 0 = unknown
	Allowed     int64     // requests, at the marked limit
	Denied      int64     // requests, at the marked limit
	FirstDenied time.Time // zero without a denial
}

// Requests returns the number of requests.
func (r *Row) Requests() int64 { return r.Allowed + r.Denied }

// DeniedShare returns the share of the requests that are denied.
func (r *Row) DeniedShare() float64 { return float64(r.Denied) / float64(max(1, r.Requests())) }

// The bounds of a file. A table is shorter than MaxRows if the file would be too large.
const (
	MaxRows     = 200     // keys in one view
	MaxViews    = 20      // tabs
	MaxSources  = 20      // names of files, and notes
	MaxBytes    = 2 << 20 // a whole file
	maxText     = 100     // characters of a key or a name
	maxSentence = 600     // characters of a sentence or a policy line
	maxSteps    = 256     // in a timeline
	maxNumbers  = 1 << 16 // in the timelines of all candidates; more make the steps wider
)
