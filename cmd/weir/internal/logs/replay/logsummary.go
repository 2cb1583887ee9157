package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/policy"
)

// LogSummary is the summary of a replay of access logs.
type LogSummary struct {
	Requests int64     // decided: Allowed + Denied
	Allowed  int64     // by every policy
	Denied   int64     // by at least one policy
	Errors   int64     // lines without a decision: Log.Bad + NoKey + BadUnits + Rejected
	NoKey    int64     // requests without a value for a key
	BadUnits int64     // requests with a size that is no number
	Rejected int64     // requests that the engine rejected, such as those with a key that is too long
	Filtered int64     // requests that Where or a path prefix leaves out
	Reason   string    // of the first rejection
	From, To time.Time // of the requests, in UTC; zero without requests
	Policies []*LogPolicySummary
	Against  []LogChange // with LogRunner.Against: for each policy of both files
	Log      accesslog.Stats
}

// LogPolicySummary counts the decisions of one policy.
type LogPolicySummary struct {
	Policy      string
	Shadow      bool // not enforced: Denied counts requests that would be denied
	Allowed     int64
	Denied      int64
	Keys        int64
	KeysDenied  int64 // keys with at least one denial
	Limits      []LogLimitSummary
	Top         []LogKeySummary // the LogOptions.Top keys with the most denials
	FirstDenied time.Time       // zero without denials
	Timeline    Timeline
}

// LogLimitSummary counts the denials of one limit.
type LogLimitSummary struct {
	Limit  string
	Denied int64 // of several limits that deny a request: the one with the longest wait
}

// LogKeySummary counts the decisions for one key.
type LogKeySummary struct {
	Key             []Dimension
	Allowed, Denied int64
	FirstDenied     time.Time
}

// DefaultTop is the number of keys in the summary of a policy.
const DefaultTop = 20

func newLogPolicySummary(p *policy.Definition) *LogPolicySummary {
	s := &LogPolicySummary{Policy: p.Name, Shadow: p.Shadow}
	for _, l := range p.Limits {
		s.Limits = append(s.Limits, LogLimitSummary{Limit: l.Name})
	}
	return s
}

func (s *LogPolicySummary) limit(name string) *LogLimitSummary {
	for i := range s.Limits {
		if s.Limits[i].Limit == name {
			return &s.Limits[i]
		}
	}
	return nil
}

// reject notes the first reason of the engine.
func (s *LogSummary) reject(err error) {
	if s.Reason == "" {
		s.Reason = err.Error()
	}
}

// count counts one request with an outcome.
func (s *LogSummary) count(at int64, o logOutcome) {
	switch o {
	case outside:
		s.Filtered++
		return
	case rejected:
		s.Rejected++
		return
	case noKey:
		s.NoKey++
		return
	}
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
	outside                    // a path with none of the prefixes
	rejected                   // an error of the engine that concerns this request
	allowed
	denied
)

// finish completes the summary.
func (r *LogRunner) finish(log *accesslog.Reader) LogSummary {
	s := r.summary
	s.Log = log.Stats()
	s.Errors = s.Log.Bad + s.NoKey + s.BadUnits + s.Rejected
	for _, p := range r.policies {
		p.finish(cmp.Or(r.options.Top, DefaultTop))
		s.Policies = append(s.Policies, p.summary)
	}
	if r.against != nil {
		r.against.finish(log)
		s.Against = r.changes()
	}
	return s
}

// finish completes the summary of a policy with its first top keys.
func (p *logPolicy) finish(top int) {
	s := p.summary
	s.Keys, s.KeysDenied, s.Top = 0, 0, nil
	var all []*keyStats
	for i := range p.keys.n {
		k := p.keys.at(i)
		if k.allowed+k.denied > 0 {
			s.Keys++
		}
		if k.denied > 0 {
			all = append(all, k)
		}
	}
	s.KeysDenied = int64(len(all))
	slices.SortFunc(all, p.byDenials)
	for i, k := range all {
		first := time.UnixMicro(k.firstDenied).UTC()
		if s.FirstDenied.IsZero() || first.Before(s.FirstDenied) {
			s.FirstDenied = first
		}
		if i < top {
			s.Top = append(s.Top, LogKeySummary{named(p.values.names, p.keys.name(k)), k.allowed, k.denied, first})
		}
	}
	s.Timeline = p.timeline.summary()
}
