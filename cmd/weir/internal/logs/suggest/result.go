package suggest

import (
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// Result is the effect of limits on the requests of logs, and a suggested limit for each
// window.
type Result struct {
	Requests int64 `json:"requests"` // counted: readable, selected, and with a key
	Keys     int64 `json:"keys"`     // distinct keys of these requests

	// The instants of the first and the last of these requests, in UTC; zero without requests.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`

	// Dimensions are the names of the values of a key, in the order of Options.Keys. Those in
	// Addresses have addresses in their counted form.
	Dimensions []string `json:"dimensions"`
	Addresses  []string `json:"-"`

	Unit string `json:"-"` // "" for requests, "bytes" for the size of responses

	// The requests by hour of the day and by day, in Zone. Days are in order, at most MaxDays, and
	// those without requests are left out.
	Zone     *time.Location `json:"-"`
	ZoneName string         `json:"zone"`
	Hours    [24]int64      `json:"hours"`
	Days     []Day          `json:"days"`

	// Best is the index in Windows of the suggestion to begin with, and BestLength the length of
	// its window as a policy file has it.
	Best       int    `json:"-"`
	BestLength string `json:"best"`

	Errors int64 `json:"errors"` // lines that are not counted

	// A recorded trace has one of Sample keys, 0 or 1 = all. Dropped calls are missing in it.
	Sample  int64 `json:"sample,omitempty"`
	Dropped int64 `json:"dropped,omitempty"`

	Windows []Window `json:"windows"`          // one for each of Options.Windows, the shortest first
	Advice  []Advice `json:"advice,omitempty"` // findings, one for each rule

	replay.LogCounts `json:"-"`
}

// Day is one day of the log.
type Day struct {
	Date     string `json:"date"` // such as 2026-03-05, in Result.Zone
	Requests int64  `json:"requests"`
}

// Window is the effect of limits of one window. The peak of a key is the largest number of
// units in any span of that length, as R3 counts them: an attempt at exactly t + window is
// no longer counted together with one at t. It is the least limit that denies no request
// of the key.
type Window struct {
	Window    time.Duration `json:"-"`
	Length    string        `json:"window"` // as a policy file has it
	Peaks     Peaks         `json:"peaks"`
	Histogram []PeakCount   `json:"-"` // the peaks that some key has, ascending

	// Candidates are ascending by limit: Options.Limits, or chosen ones with that of Suggested.
	Candidates []Candidate `json:"candidates"`
	Suggested  Suggestion  `json:"suggested"`

	// At most MaxTop keys: those that the suggestion denies most, and those with the largest peaks.
	Top      []Key `json:"top"`
	Heaviest []Key `json:"-"`

	// Timeline has all requests, allowed and denied by the suggestion. Denials has the denied
	// requests by slot of Timeline, by limit of Candidates and of Suggested.
	Timeline replay.Timeline   `json:"-"`
	Denials  map[int64][]int64 `json:"-"`

	// WithoutDay is the suggestion without each of Result.Days; nil for fewer than two days.
	WithoutDay []WithoutDay `json:"without_day,omitempty"`
}

// Peaks are percentiles of the peaks over keys, by nearest rank: P99 is the smallest peak
// that at least 99 % of the keys do not exceed. So each of them is the peak of some key.
type Peaks struct {
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p99.9"`
	Max  int64 `json:"max"`
}

// PeakCount is a peak with its number of keys.
type PeakCount struct{ Peak, Keys int64 }

// Candidate is the exact effect of one limit. Every key is decided alone, by the engine's
// rules: a denied request charges nothing (R4), so it changes the later decisions.
type Candidate struct {
	Limit          int64 `json:"limit"` // units per window
	RequestsDenied int64 `json:"requests_denied"`
	KeysDenied     int64 `json:"keys_denied"` // keys with at least one denied request
}

// Suggestion is the proposed limit of a window, with its exact effect.
type Suggestion struct {
	Candidate
	Line  string `json:"line"` // for a policy file, such as 120 per minute per ip
	Why   string `json:"why"`  // the reason, one sentence
	Basis Basis  `json:"basis"`

	// The advice of the best window in one sentence, and the keys that a plan spares.
	Headline  string    `json:"headline,omitempty"`
	Certainty Certainty `json:"certainty,omitempty"`
	Exempt    []Exempt  `json:"exempt,omitempty"`

	Low   int64 `json:"-"` // the largest peak that the limit spares; 0 if it spares no key
	High  int64 `json:"-"` // the least peak that it denies; 0 if it denies no key
	floor int64 // the peak that it spares with headroom

	scripts int64 // denied requests of scripts
	hours   int64 // for a limit of all requests together: the hours above it, with a gap below
	others  int64 // the other hours with requests
}

// Basis is the ground of a suggestion.
type Basis string

// The grounds of a suggestion, from the best to the weakest.
const (
	Gap   Basis = "gap"   // some keys behave like scripts and stand apart
	Spare Basis = "spare" // none does: a percentile of the peaks with headroom
	Few   Basis = "few"   // too little data: the largest peak with headroom
)

// Key is the effect of the suggestion on one key.
type Key struct {
	Key         replay.Key `json:"key"`
	Class       Class      `json:"class,omitempty"`
	Peak        int64      `json:"peak"`         // units
	Requests    int64      `json:"requests"`     // denied ones included
	Denied      int64      `json:"denied"`       // by the suggestion
	FirstDenied time.Time  `json:"first_denied"` // in UTC; zero without denials
}

// WithoutDay is the suggestion of a log without one of its days. A peak belongs to the day
// of its last request.
type WithoutDay struct {
	Date  string `json:"date"` // such as 2026-03-05
	Limit int64  `json:"limit"`
}
