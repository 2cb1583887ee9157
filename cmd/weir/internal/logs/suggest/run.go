// Package suggest chooses limits from access logs. It computes the effect of limits of
// several windows on recorded requests exactly, and proposes one for each window.
//
//	log, err := accesslog.Open([]string{"access.log"}, accesslog.Options{Reorder: accesslog.DefaultReorder})
//	keys, err := replay.ParseLogKey("ip=remote_addr")
//	result, err := suggest.Run(log, suggest.Options{LogOptions: replay.LogOptions{Keys: []replay.LogKey{keys}, Units: replay.LogUnits{N: 1}},
//		Windows: []time.Duration{time.Minute}, Spare: 0.999, Zone: time.UTC, Memory: 512 << 20})
//
// # Peaks
//
// The peak of a key is the largest number of its requests in any rolling window (R3). It is
// the least limit that denies none of them. Ordinary clients have similar peaks, and
// scripts stand apart from them by a factor. The suggestion lies in that gap, near the
// ordinary side. Without a gap it is a percentile of the peaks with headroom.
//
// # Rules of advice
//
// rules.go describes each key by a profile, and classOf gives it the class of the first rule that
// holds. A rule of many keys together, findSwarm, stands in swarm.go. In advice.go advise adds a
// sentence for each class and chooses the certainty. docs/choosing.md lists the rules.
//
// # Exactness
//
// A limit is decided for every request of every key with a higher peak, by the rules of the
// engines: a denied request charges nothing (R4), so it changes the later decisions. Lines
// that are out of order are sorted, because all requests are held anyway. The result is that of
// package replay for the same limit and sorted lines.
//
// # Trade-off
//
// The requests are kept in memory, in about five bytes each, because the limits to try
// follow from the peaks and a pipe cannot be read twice. Keys take about 80 bytes. The sum
// is bounded by Options.Memory. Deciding all candidates while reading would need no copy of
// the requests, and a history for each key, window and candidate.
package suggest

import (
	"cmp"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
)

// Run reads all requests of a log and returns the effect of limits on them. The error is
// that of two sources for one dimension, or a *[replay.LogError]; with it the Result has only the
// counts of lines.
func Run(log *accesslog.Reader, o Options) (*Result, error) {
	o.Windows = sortedOnce(o.Windows)
	o.Limits = sortedOnce(o.Limits)
	o.Traits = []accesslog.Field{
		accesslog.UserAgent, accesslog.User, accesslog.Path, accesslog.Status,
	}
	source, err := replay.NewLogKeys(o.LogOptions)
	if err != nil {
		return &Result{}, err
	}
	r := &requests{
		weighted: o.Units != replay.LogUnits{N: 1},
		windows:  len(o.Windows),
		memory:   o.Memory,
	}
	err = source.Each(log, func(key []byte, e *accesslog.Entry, n int64) error {
		if err := r.add(key, e.At, n); err != nil {
			return err
		}
		r.noteTraits(traitValues{
			agent:  valueOf(e, accesslog.UserAgent),
			user:   valueOf(e, accesslog.User),
			path:   valueOf(e, accesslog.Path),
			status: valueOf(e, accesslog.Status),
		})
		return nil
	})
	result := &Result{Dimensions: source.Dimensions(), Zone: o.Zone, ZoneName: o.Zone.String()}
	result.Addresses = source.Addresses()
	var unread error
	result.LogCounts, unread = source.Counts(log)
	result.Sorted = true
	result.Errors = result.LogCounts.Errors()
	result.Sample = result.Log.Sample
	result.Dropped = result.Log.Dropped
	err = cmp.Or(err, unread)
	if err == nil && r.n == 0 {
		err = result.Undecided()
	}
	if err != nil {
		return result, err
	}
	r.computeResult(result, &o, source)
	return result, nil
}

// valueOf returns the value of a field, or nil.
func valueOf(e *accesslog.Entry, f accesslog.Field) []byte {
	if v, ok := e.Get(f); ok {
		return v
	}
	return nil
}

// computeResult computes the result.
func (r *requests) computeResult(result *Result, o *Options, source *replay.LogKeys) {
	result.Requests = r.n
	result.Keys = int64(r.keys.Len())
	result.From = time.UnixMicro(r.slots.From).UTC()
	result.To = time.UnixMicro(r.slots.To).UTC()
	if o.Units.Bytes {
		result.Unit = "bytes"
	}
	days := newCalendar(o.Zone, r.slots.From, r.slots.To)
	keys, all := r.readAll(o.Windows, days)
	result.Hours = days.hours
	result.Days = days.days
	r.classify(keys)
	r.measure(all, days, keys)
	effects := r.decideAll(all, o, keys)
	choices := make([]Suggestion, len(all))
	for i, m := range all {
		choices[i] = m.choose(effects[i], result, o)
		if len(result.Dimensions) == 0 {
			choices[i] = r.chooseInAll(m)
		}
	}
	named := func(key uint32) replay.Key { return source.Named(r.keys.Text(int(key))) }
	details := r.describe(all, choices, keys)
	for i, d := range details {
		w := all[i].propose(effects[i], choices[i], d, result, o)
		w.Suggested.scripts = d.scripts
		w.Top = d.top.result(named)
		w.Heaviest = d.heaviest.result(named)
		result.Windows = append(result.Windows, w)
	}
	result.Best = bestOf(result.Windows, result.To.Sub(result.From))
	best := &result.Windows[result.Best]
	result.BestLength = best.Length
	a := adviser{
		requests: r,
		keys:     keys,
		measured: all[result.Best],
		detail:   details[result.Best],
		named:    named,
		result:   result,
		window:   best,
		s:        &best.Suggested,
		windows:  all,
		details:  details,
	}
	a.advise()
}

// bestOf returns the index of the window to begin with. It is the window with a gap whose limit
// denies most, otherwise a minute, otherwise the first. A window must fit in the log. The log may be
// a tenth shorter, as the log of a day is: the requests of that tenth are fewer than the headroom.
func bestOf(all []Window, span time.Duration) (best int) {
	rank := func(w *Window) int64 {
		switch {
		case w.Suggested.Basis == Gap && w.Window/10*9 <= span:
			return 1 + w.Suggested.scripts
		case w.Window == time.Minute:
			return 0
		case w.Suggested.Basis == Gap:
			return -1
		}
		return -2
	}
	for i := range all {
		if rank(&all[i]) > rank(&all[best]) {
			best = i
		}
	}
	return best
}

// Bounds of a result.
const (
	MaxWindows = 16  // in Options.Windows
	MaxLimits  = 200 // in Options.Limits
	MaxTop     = 200 // keys of Window.Top and Window.Heaviest
	MaxDays    = 62  // in Result.Days; the newest if the log is longer
)

// Options select the requests, their keys, and the limits to try. All fields but Limits are
// required.
type Options struct {
	// LogOptions have at least one key and more than 0 units; their Policy has no meaning.
	replay.LogOptions

	Windows []time.Duration // whole microseconds up to 400 days

	// Limits are candidates of every window, 0 … weir.MaxUnits; nil = about 30 around the peaks.
	Limits []int64

	// Spare is the share of the keys, above 0 and up to 1, that a suggestion without a gap spares.
	Spare float64

	Zone   *time.Location // for hours and days
	Memory int64          // bytes for keys and requests
}
