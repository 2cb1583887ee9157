package suggest

import (
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// Result is the effect of limits on the requests of logs, and a suggested limit for each
// window.
type Result struct {
	Requests   int64     // counted: readable, selected, and with a key
	Keys       int64     // distinct keys of these requests
	From, To   time.Time // of these requests, in UTC; zero without requests
	Dimensions []string  // names of the values of a key, in the order of Options.Keys
	Unit       string    // "" for requests, "bytes" for the size of responses
	Windows    []Window  // shortest first, one for each of Options.Windows
	Best       int       // index in Windows of the suggestion to begin with

	Zone  *time.Location // of Hours and Days
	Hours [24]int64      // requests by hour of the day
	Days  []Day          // in order, at most MaxDays; days without requests are left out

	NoKey    int64 // requests without a value for a key; they are not counted
	BadUnits int64 // requests with a size that is no number; they are not counted
	Rejected int64 // requests with a key that is too long; they are not counted
	Filtered int64 // requests that Options.Where or a path prefix leaves out
	Log      accesslog.Stats
}

// Day is one day of the log.
type Day struct {
	Date     string // such as 2026-03-05, in Result.Zone
	Requests int64
}

// Window is the effect of limits of one window. The peak of a key is the largest number of
// units in any span of that length, as R3 counts them: an attempt at exactly t + window is
// no longer counted together with one at t. It is the least limit that denies no request
// of the key.
type Window struct {
	Window     time.Duration
	Peaks      Peaks
	Histogram  []Bin       // of the peaks, ascending; bins without keys are left out
	Candidates []Candidate // ascending by limit: Options.Limits, or chosen ones with that of Suggested
	Suggested  Suggestion
	Top        []Key             // the keys that the suggestion denies most, at most MaxTop
	Heaviest   []Key             // the keys with the largest peaks, at most MaxTop
	Timeline   replay.Timeline   // of all requests, allowed and denied by the suggestion
	Denials    map[int64][]int64 // by limit of Candidates and of Suggested: denied requests by slot of Timeline
	WithoutDay []WithoutDay      // the suggestion without each of Result.Days; nil for fewer than two days
}

// Peaks are percentiles of the peaks over keys, by nearest rank: P99 is the smallest peak
// that at least 99 % of the keys do not exceed. So each of them is the peak of some key.
type Peaks struct {
	P50, P90, P99, P999, Max int64
}

// Bin counts the keys with a peak in From … To.
type Bin struct {
	From, To int64 // both included
	Keys     int64
}

// Candidate is the exact effect of one limit. Every key is decided alone, by the engine's
// rules: a denied request charges nothing (R4), so it changes the later decisions.
type Candidate struct {
	Limit          int64 // units per window
	RequestsDenied int64
	KeysDenied     int64 // keys with at least one denied request
}

// Suggestion is the proposed limit of a window.
type Suggestion struct {
	Candidate
	Line  string // of a policy file, such as 120 per minute per ip
	Why   string // the reason, one sentence
	Basis Basis
	Low   int64 // the largest peak that the limit spares; 0 if it spares no key
	High  int64 // the least peak that it denies; 0 if it denies no key
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
	Key         []replay.Dimension
	Peak        int64     // units
	Requests    int64     // of the key, denied ones included
	Denied      int64     // of Requests, by the suggestion
	FirstDenied time.Time // in UTC; zero without denials
}

// WithoutDay is the suggestion of a log without one of its days. A peak belongs to the day
// of its last request.
type WithoutDay struct {
	Date  string // such as 2026-03-05
	Limit int64
}
