package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
)

// LogSummary is the summary of a replay of access logs.
type LogSummary struct {
	Requests int64 `json:"requests"` // decided: Allowed + Denied
	Allowed  int64 `json:"allowed"`  // by every policy
	Denied   int64 `json:"denied"`   // by at least one policy
	Errors   int64 `json:"errors"`   // lines without a decision

	// The instants of the first and the last request, in UTC; zero without requests.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`

	Policies  byName[*LogPolicySummary] `json:"policies"`
	Against   *LogChanges               `json:"against,omitempty"` // with LogRunner.Against
	LogCounts `json:"-"`
}

// LogCounts counts the lines of logs without a decision.
type LogCounts struct {
	NoKey    int64    // requests without a value for a key
	BadUnits int64    // requests with a size that is no number
	Rejected int64    // requests that the engine rejects, such as those with a key that is too long
	Filtered int64    // requests that Where or a path prefix leaves out
	Sorted   bool     // late lines were sorted before they were decided
	Reason   string   // the first reason of a rejection
	Doubt    string   // why keys are probably not those of clients, and the next step
	Idle     []string // conditions FIELD!=GLOB that left out no request
	Log      accesslog.Stats
}

// Errors returns the number of lines without a decision.
func (c *LogCounts) Errors() int64 { return c.Log.Bad + c.NoKey + c.BadUnits + c.Rejected }

// Undecided returns the reason why no request of a log has a decision, with the doubt about its
// keys.
func (c *LogCounts) Undecided() error {
	reason := "no request matches all conditions; check --where and the prefixes of --key"
	switch {
	case c.Rejected > 0:
		reason = fmt.Sprintf("%d rejected, the first because: %s", c.Rejected, c.Reason)
	case c.NoKey > 0:
		reason = fmt.Sprintf("%d without a value for a key; name a field that has one by --key",
			c.NoKey)
	case c.BadUnits > 0:
		reason = fmt.Sprintf("%d with a size that is no number; choose other --units", c.BadUnits)
	}
	if c.Doubt != "" {
		reason += "; " + c.Doubt
	}
	return &LogError{"no request was decided: " + reason}
}

// count counts a request without a decision, and reports whether it has one.
func (c *LogCounts) count(o logOutcome) (decided bool) {
	switch o {
	case noKey:
		c.NoKey++
	case badUnits:
		c.BadUnits++
	case outside:
		c.Filtered++
	case rejected:
		c.Rejected++
	default:
		return true
	}
	return false
}

// LogPolicySummary counts the decisions of one policy.
type LogPolicySummary struct {
	Policy string `json:"-"`
	Shadow bool   `json:"-"` // not enforced: Denied counts requests that would be denied
	LogDecisions
	Limits byName[*LogLimitSummary] `json:"limits"`

	// Top has the MaxTop keys with the most denials. DefaultTop of them are printed.
	Top         []LogKeySummary `json:"top"`
	FirstDenied time.Time       `json:"-"` // zero without denials
	Timeline    Timeline        `json:"-"`
}

// LogDecisions counts the decisions of one policy and their keys.
type LogDecisions struct {
	Allowed    int64 `json:"allowed"`
	Denied     int64 `json:"denied"`
	Keys       int64 `json:"keys"`
	KeysDenied int64 `json:"keys_denied"` // keys with at least one denial
}

// LogLimitSummary counts the denials of one limit.
type LogLimitSummary struct {
	Limit  string `json:"-"`
	Denied int64  `json:"denied"` // if several limits deny a request, the one with the longest wait
}

// LogKeySummary counts the decisions for one key.
type LogKeySummary struct {
	Key         Key       `json:"key"`
	Denied      int64     `json:"denied"`
	Allowed     int64     `json:"allowed"`
	FirstDenied time.Time `json:"first_denied"`
}

// LogChanges compares the decisions of two files.
type LogChanges struct {
	File     string             `json:"file"`     // the old one
	Policies byName[*LogChange] `json:"policies"` // those of both files
}

// LogChange compares the decisions of one policy in two files. The keys are nil if the
// policy counts by other dimensions in the other file, or is in one file only.
type LogChange struct {
	Policy string `json:"-"`

	// Decisions by each file; nil if only the other one has the policy.
	Old *LogDecisions `json:"old"`
	New *LogDecisions `json:"new"`

	// Numbers of keys with a denial by the new file only, and by the old file only.
	KeysNewlyDenied    *int64 `json:"keys_newly_denied"`
	KeysNoLongerDenied *int64 `json:"keys_no_longer_denied"`

	// The DefaultTop of these keys with the most denials.
	NewlyDenied    []LogKeyChange `json:"newly_denied"`
	NoLongerDenied []LogKeyChange `json:"no_longer_denied"`
}

// LogKeyChange is a key with a denial by one of two files.
type LogKeyChange struct {
	Key    Key   `json:"key"`
	Denied int64 `json:"denied"` // by the file that denies it
}

// byName is a list in order. As JSON it is an object of its elements by their names.
type byName[T interface{ name() string }] []T

func (p *LogPolicySummary) name() string { return p.Policy }
func (l *LogLimitSummary) name() string  { return l.Limit }
func (c *LogChange) name() string        { return c.Policy }

// MarshalJSON returns the object.
func (all byName[T]) MarshalJSON() ([]byte, error) {
	object := map[string]T{}
	for _, one := range all {
		object[one.name()] = one
	}
	return json.Marshal(object)
}

// The numbers of keys of a policy.
const (
	MaxTop     = 200 // in a summary
	DefaultTop = 20  // printed of them, and in a LogChange
)

// count counts a decided request.
func (s *LogSummary) count(at int64, o logOutcome) {
	t := time.UnixMicro(at).UTC()
	if s.Requests == 0 || t.Before(s.From) {
		s.From = t
	}
	if t.After(s.To) {
		s.To = t
	}
	s.Requests++
	if o == denied {
		s.Denied++
	} else {
		s.Allowed++
	}
}

// logOutcome is the outcome of a request for all policies, the greatest of theirs.
type logOutcome uint8

const (
	noKey    logOutcome = iota // no value for a dimension
	badUnits                   // a size that is no number
	outside                    // a condition that does not match, or a path without a prefix
	rejected                   // an error of the engine that concerns this request
	allowed
	denied
)

// completeSummary completes the summary.
func (r *LogRunner) completeSummary(log *accesslog.Reader) LogSummary {
	counts := &r.selector.counts
	counts.Log = log.Stats()
	counts.Doubt = r.selector.doubt(log)
	counts.Idle = r.selector.idleConditions()
	s := r.summary
	s.LogCounts = *counts
	s.Errors = s.LogCounts.Errors()
	for _, p := range slices.Concat(r.policies, r.old) {
		p.completeSummary()
	}
	for _, p := range r.policies {
		s.Policies = append(s.Policies, p.summary)
	}
	if r.oldName != "" {
		s.Against = r.changes()
	}
	return s
}

// completeSummary completes the summary of a policy.
func (p *logPolicy) completeSummary() {
	s := p.summary
	s.Keys = 0
	s.Top = []LogKeySummary{}
	for key := range p.keys.Len() {
		k := p.keys.Value(key)
		if k.allowed+k.denied > 0 {
			s.Keys++
		}
	}
	all := p.denied(func(int) bool { return true })
	s.KeysDenied = int64(len(all))
	for i, key := range all {
		k := p.keys.Value(key)
		first := time.UnixMicro(k.firstDenied).UTC()
		if s.FirstDenied.IsZero() || first.Before(s.FirstDenied) {
			s.FirstDenied = first
		}
		if i < MaxTop {
			s.Top = append(s.Top, LogKeySummary{
				Key:         p.named(key),
				Denied:      k.denied,
				Allowed:     k.allowed,
				FirstDenied: first,
			})
		}
	}
	s.Timeline = p.slots.Timeline()
}
