// Package suggest chooses limits from access logs. It computes the effect of limits of
// several windows on recorded requests exactly, and proposes one for each window.
//
//	log, err := accesslog.Open([]string{"access.log"}, accesslog.Options{})
//	keys, err := replay.ParseLogKey("ip=remote_addr")
//	result, err := suggest.Run(ctx, log, suggest.Options{Keys: []replay.LogKey{keys}, Units: replay.LogUnits{N: 1}})
//
// # Peaks
//
// The peak of a key is the largest number of its requests in any rolling window (R3). It is
// the least limit that denies none of them. Ordinary clients have similar peaks, and
// scripts stand apart from them by a factor. The suggestion lies in that gap, near the
// ordinary side. Without a gap it is a percentile of the peaks with headroom.
//
// # Exactness
//
// A limit is decided for every request of every key with a higher peak, by the rules of the
// engines: a denied request charges nothing (R4), so it changes the later decisions. Lines
// that are out of order by more than the reader sorts are decided where they stand, as
// when a clock is set back (R2). The result is that of package replay for the same limit.
//
// # Trade-off
//
// The requests are kept in memory, in about six bytes each, because the limits to try
// follow from the peaks and a pipe cannot be read twice. Keys take about 30 bytes. The sum
// is bounded by Options.Memory. Deciding all candidates while reading would need no copy of
// the requests, and a history for each key, window and candidate.
package suggest
