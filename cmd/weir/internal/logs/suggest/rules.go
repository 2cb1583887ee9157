package suggest

import (
	"maps"
	"math"
	"math/bits"
	"slices"
)

// Class is the kind of client that a key probably is. Each is found by a rule of its name.
type Class string

// The classes. Keys of the classes up to Apart are scripts, which a limit may deny. The others
// are spared: Crowd by the limit, and Batch by a plan.
const (
	Ordinary  Class = ""          // none of the others
	Even      Class = "even"      // each minute is like the fullest one
	Sleepless Class = "sleepless" // steady through hours in which people sleep
	Apart     Class = "apart"     // far above all others, by size alone
	Crowd     Class = "crowd"     // may be many people: an office, a school or a mobile network
	Batch     Class = "batch"     // the same hours of several days, and nothing between
)

// isScript reports whether a limit may deny keys of the class.
func (c Class) isScript() bool { return c == Even || c == Sleepless || c == Apart }

// The bounds of the rules, with their reasons.
const (
	// a heavy key is this far above the others: 5 against 4 is no gap, and a limit between needs
	// room on both sides
	gapRatio = 1.5
	// a gap in minutes that only size shows: one visitor opens a few pages at a time
	gapOfMinutes = 4
	gapOfScripts = 8 // a gap that only size shows: no visitor is eight visitors
	// most keys above a gap, and with a sign of scripts: what many keys do is ordinary
	heavyShare = 0.25
	// people pause: their mean minute is less than this share of the fullest one
	evenLoad  = 0.6
	clockLoad = 0.85 // nearly all minutes are the fullest one, which no crowd is
	evenMean  = 10   // requests in a minute: nobody opens a page every six seconds for long
	// the same for minutes that are alike as those of a clock: of fewer requests that is chance
	clockMean   = 4
	evenMinutes = 10        // a short visit is even by chance
	pause       = 3 * hour  // people who sleep pause longer
	awake       = 20 * hour // people are not awake longer
	// the quietest six hours of a script have nearly a quarter of its requests
	quietShare = 0.15
	// hours of the day that have nearly all requests of a batch: a run of three hours touches
	// four
	batchHours  = 4
	batchPause  = 12 * hour // between two runs of a batch
	crowdAgents = 8         // one person has few browsers
	crowdHours  = 4         // a crowd stays for part of a day
)

const (
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// scales are the windows in which a key can be heavy.
var scales = [...]int64{minute, hour, day}

// profile describes the requests of one key without regard to a limit.
type profile struct {
	peaks    [len(scales)]uint32 // requests in the fullest of each of scales
	requests uint32
	minutes  uint32 // minutes with requests; each begins with the first request after the last one
	stretch  uint16 // minutes of the longest stretch without a pause
	hours    uint16 // hours with requests, as minutes
	runs     uint16 // stretches with more than batchPause between them
	busy     uint8  // least number of hours of the day that have 90 % of the requests
	quiet    uint8  // percent of the requests in the six hours of the day that have the least
	isLong   bool   // between the first and the last request are more than 26 hours
	class    Class
}

// load returns the mean minute as a share of the fullest one, above 0 and up to 1.
func (p *profile) load() float64 {
	return min(1, float64(p.requests)/float64(p.minutes)/float64(p.peaks[0]))
}

// isEven reports whether the minutes of a key are alike.
func (p *profile) isEven() bool {
	isQuick := p.requests >= evenMean*p.minutes && p.load() >= evenLoad
	isClock := p.requests >= clockMean*p.minutes && p.load() >= clockLoad
	return p.minutes >= evenMinutes && (isQuick || isClock)
}

// isSleepless reports whether a key is steady while people sleep.
func (p *profile) isSleepless() bool {
	return int64(p.stretch)*minute >= awake && (!p.isLong || float64(p.quiet) >= 100*quietShare)
}

// isBatch reports whether an even key runs in the same hours of several days, and not between.
func (p *profile) isBatch() bool { return p.isEven() && p.runs >= 2 && p.busy <= batchHours }

// fullest returns the largest number of sorted requests in any window (R3).
func fullest(requests []request, window int64) (most int) {
	first := 0
	for i := range requests {
		for requests[first].at <= requests[i].at-window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// profileOf returns the profile of a key by its sorted requests.
func profileOf(requests []request) (p profile) {
	p.requests = uint32(min(len(requests), math.MaxUint32))
	for i, scale := range scales {
		p.peaks[i] = uint32(fullest(requests, scale))
	}
	var clock [24]int64
	minuteEnd, hourEnd := int64(math.MinInt64), int64(math.MinInt64)
	begin, last := requests[0].at, requests[0].at
	p.runs = 1
	longest := int64(0)
	for _, r := range requests {
		if r.at >= minuteEnd {
			minuteEnd = r.at + minute
			p.minutes++
		}
		if r.at >= hourEnd {
			hourEnd = r.at + hour
			p.hours++
		}
		if r.at-last > pause {
			begin = r.at
		}
		if r.at-last > batchPause && p.runs < math.MaxUint16 {
			p.runs++
		}
		last = r.at
		longest = max(longest, last-begin)
		clock[r.at/hour%24]++
	}
	p.stretch = uint16(min(longest/minute, math.MaxUint16))
	p.isLong = last-requests[0].at > 26*hour
	p.busy, p.quiet = arcs(&clock, int64(len(requests)))
	return p
}

// arcs returns the least number of neighbouring hours of the day that have 90 % of all requests,
// and the percentage in the six neighbouring hours that have the least.
func arcs(clock *[24]int64, all int64) (busy, quiet uint8) {
	sum := func(from, hours int) (n int64) {
		for i := range hours {
			n += clock[(from+i)%24]
		}
		return n
	}
	busy, least := 24, all
	for from := range 24 {
		least = min(least, sum(from, 6))
		for hours := 1; hours < int(busy); hours++ {
			if sum(from, hours)*10 >= all*9 {
				busy = uint8(hours)
			}
		}
	}
	return busy, uint8(least * 100 / max(1, all))
}

// traits are the different values of fields that the requests of one key had, each as one of 64
// bits, and the number of failed requests.
type traits struct {
	agents, paths uint64
	path          uint32 // the number of the first path, 0 for none or another one
	failed        uint32
}

// distinct returns about the number of different values of a set of bits: with all of them set it
// is at least 64.
func distinct(set uint64) int {
	n := bits.OnesCount64(set)
	if n == 64 {
		return 267 // with all 64 bits set, as many values are the most likely number
	}
	return int(math.Round(-64 * math.Log(1-float64(n)/64)))
}

// bases are the largest peaks of ordinary keys, by scale.
type bases [len(scales)]int64

// isHeavy reports whether a key is above all ordinary keys by a ratio.
func (b *bases) isHeavy(p *profile) bool {
	for i, base := range b {
		if float64(p.peaks[i]) >= gapRatio*float64(max(1, base)) {
			return true
		}
	}
	return false
}

// classify gives each key its class.
func (r *requests) classify() (all []profile) {
	all = make([]profile, r.keys.Len())
	r.eachKey(func(key uint32, requests []request) { all[key] = profileOf(requests) })

	most := int(heavyShare * float64(len(all)))
	even := signs(all, most, (*profile).isEven)
	sleepless := signs(all, most, (*profile).isSleepless)
	batch := signs(all, most, (*profile).isBatch)
	hasAgents := slices.ContainsFunc(r.traits, func(t traits) bool { return t.agents != 0 })
	isCrowd := func(key int) bool {
		p := &all[key]
		return p.hours >= crowdHours && !sleepless(p) && p.load() < clockLoad &&
			distinct(r.traits[key].agents) >= crowdAgents
	}
	crowds := 0
	for key := range all {
		if isCrowd(key) {
			crowds++
		}
	}
	var b bases
	for i := range scales {
		rest := histogram{}
		for key := range all {
			p := &all[key]
			isSigned := even(p) || sleepless(p) || batch(p)
			if !isSigned && (crowds > most || !isCrowd(key)) {
				rest[int64(p.peaks[i])]++
			}
		}
		b[i] = apart(rest.peaks(), i == 0)
	}
	for key := range all {
		p := &all[key]
		switch isHeavy := b.isHeavy(p); {
		case !isHeavy:
		case isCrowd(key):
			p.class = Crowd
		case batch(p):
			p.class = Batch
		case sleepless(p):
			p.class = Sleepless
		case even(p):
			p.class = Even
		case !b.isFar(p):
		case p.hours >= crowdHours && p.load() < evenLoad && b.isWide(p):
			p.class = Crowd // one busy client or many: nothing else shows the difference
		default:
			p.class = Apart
		}
	}
	r.bases, r.hasAgents = b, hasAgents
	return all
}

// isFar reports whether size alone shows that a key is no visitor.
func (b *bases) isFar(p *profile) bool {
	for i, base := range b {
		if int64(p.peaks[i]) > base && (i == 0 || float64(p.peaks[i]) >= gapOfScripts*float64(max(1, base))) {
			return true
		}
	}
	return false
}

// isWide reports whether a key is far above all others only over hours or days, as a crowd is whose
// members come one after another.
func (b *bases) isWide(p *profile) bool { return int64(p.peaks[0]) <= b[0] }

// signs returns a rule that holds for no key if it would hold for more than most: it is then the
// way of all clients of this log.
func signs(all []profile, most int, is func(*profile) bool) func(*profile) bool {
	n := 0
	for i := range all {
		if is(&all[i]) {
			n++
		}
	}
	if n > max(most, 1) {
		return func(*profile) bool { return false }
	}
	return is
}

// apart returns the peak below the gap that shows scripts by size alone: the lowest one of
// gapOfScripts, or else, of minutes, the highest one of gapOfMinutes. Without a gap it is the
// largest peak.
func apart(peaks []PeakCount, isMinute bool) int64 {
	below, total, limit := int64(0), float64(keysOf(peaks)), largest(peaks)
	for i, p := range peaks[:max(0, len(peaks)-1)] {
		below += p.Keys
		if float64(below) < (1-heavyShare)*total {
			continue
		}
		switch next := peaks[i+1].Peak; {
		case next >= gapOfScripts*p.Peak:
			return p.Peak
		case isMinute && next >= gapOfMinutes*p.Peak:
			limit = p.Peak
		}
	}
	return limit
}

// histogram counts keys by their peaks.
type histogram map[int64]int64

// peaks returns the peaks that some key has, ascending. A key without units has the peak 0.
func (h histogram) peaks() (all []PeakCount) {
	for _, peak := range slices.Sorted(maps.Keys(h)) {
		all = append(all, PeakCount{peak, h[peak]})
	}
	return all
}

// keysOf returns the number of keys.
func keysOf(all []PeakCount) (n int64) {
	for _, p := range all {
		n += p.Keys
	}
	return n
}

// percentile returns the smallest peak that at least a share of the keys do not exceed, by
// nearest rank. It is 0 without keys.
func percentile(all []PeakCount, share float64) int64 {
	// 0.999 × 1000 is slightly above 999
	rank := int64(math.Ceil(share*float64(keysOf(all)) - 1e-9))
	for _, p := range all {
		if rank -= p.Keys; rank <= 0 {
			return p.Peak
		}
	}
	return 0
}

// largest returns the last of sorted peaks, 0 without any.
func largest(all []PeakCount) int64 { return percentile(all, 1) }
