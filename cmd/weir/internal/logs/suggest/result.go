package suggest

import (
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// Result is the effect of limits on the requests of logs, and a suggested limit for each
// window.
type Result struct {
	// counted: readable, selected, and with a key
	Requests int64 `json:"requests"`
	Keys     int64 `json:"keys"` // distinct keys of these requests
	// the first of these requests, in UTC; zero without requests
	From time.Time `json:"from"`
	To   time.Time `json:"to"` //
	// names of the values of a key, in the order of Options.Keys
	Dimensions []string `json:"dimensions"`
	// those of Dimensions with addresses in their counted form
	Addresses []string `json:"-"`
	// "" for requests, "bytes" for the size of responses
	Unit     string         `json:"-"`
	Zone     *time.Location `json:"-"`     // for Hours and Days
	ZoneName string         `json:"zone"`  // the name of Zone
	Hours    [24]int64      `json:"hours"` // requests by hour of the day
	// in order, at most MaxDays; days without requests are left out
	Days []Day `json:"days"`
	// index in Windows of the suggestion to begin with
	Best       int    `json:"-"`
	BestLength string `json:"best"`   // its length, as a policy file has it
	Errors     int64  `json:"errors"` // lines that are not counted
	// a recorded trace has one of Sample keys; 0 or 1 = all
	Sample int64 `json:"sample,omitempty"`
	// calls that are missing in a recorded trace
	Dropped int64 `json:"dropped,omitempty"`
	// shortest first, one for each of Options.Windows
	Windows []Window `json:"windows"`
	Advice  []Advice `json:"advice,omitempty"` // what each rule found

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
	// ascending by limit: Options.Limits, or chosen ones with that of Suggested
	Candidates []Candidate `json:"candidates"`
	Suggested  Suggestion  `json:"suggested"`
	// the keys that the suggestion denies most, at most MaxTop
	Top []Key `json:"top"`
	// the keys with the largest peaks, at most MaxTop
	Heaviest []Key `json:"-"`
	// all requests, allowed and denied by the suggestion
	Timeline replay.Timeline `json:"-"`
	// by limit of Candidates and of Suggested: denied requests by slot of Timeline
	Denials map[int64][]int64 `json:"-"`
	// the suggestion without each of Result.Days; nil for fewer than two days
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

	// the advice in one sentence; of the best window only
	Headline  string    `json:"headline,omitempty"`
	Certainty Certainty `json:"certainty,omitempty"` // of the best window only
	// keys that a plan spares; of the best window only
	Exempt []Exempt `json:"exempt,omitempty"`

	Low   int64 `json:"-"` // the largest peak that the limit spares; 0 if it spares no key
	High  int64 `json:"-"` // the least peak that it denies; 0 if it denies no key
	floor int64 // the peak that it spares with headroom

	scripts int64 // denied requests of scripts
	hours   int64 // of a limit for all requests together: the hours above it, with a gap below them
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
