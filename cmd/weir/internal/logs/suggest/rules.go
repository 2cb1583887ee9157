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
	// gapRatio is how far a heavy key is above the others: 5 against 4 is no gap, and a limit
	// between needs room on both sides.
	gapRatio = 1.5

	// A gap that only size shows: no visitor is eight visitors. Of minutes it is half as wide,
	// because one visitor opens a few pages at a time.
	gapOfScripts = 8
	gapOfMinutes = 4

	// heavyShare is the largest share of keys above a gap, and of those with a sign of scripts:
	// what many keys do is ordinary.
	heavyShare = 0.25

	// People pause: their mean minute is less than evenLoad of the fullest one. With clockLoad
	// nearly all minutes are the fullest one, which no crowd is.
	evenLoad  = 0.6
	clockLoad = 0.85

	// The least mean of requests in a minute. Nobody opens a page every six seconds for long.
	// Minutes that are alike as those of a clock may have fewer, but not so few that it is chance.
	evenMean  = 10
	clockMean = 4

	evenMinutes = 10 // the least number of minutes: a short visit is even by chance

	pause = 3 * hour  // people who sleep pause longer
	awake = 20 * hour // people are not awake longer

	// quietShare is the least share of a script's requests in the quietest six hours, which have
	// nearly a quarter of them.
	quietShare = 0.15

	// A batch has nearly all of its requests in batchHours of the day: a run of three hours
	// touches four. Between two runs are more than batchPause.
	batchHours = 4
	batchPause = 12 * hour

	crowdAgents = 8 // the least number of user agents: one person has few browsers
	crowdHours  = 4 // the least number of hours: a crowd stays for part of a day
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
	minuteEnd := int64(math.MinInt64)
	hourEnd := int64(math.MinInt64)
	begin := requests[0].at // of the stretch
	last := requests[0].at
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
	p.busy, p.quiet = busyAndQuiet(&clock, int64(len(requests)))
	return p
}

// busyAndQuiet returns the least number of neighbouring hours of the day that have 90 % of all
// requests, and the percentage in the six neighbouring hours that have the least.
func busyAndQuiet(clock *[24]int64, all int64) (busy, quiet uint8) {
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
	c := r.newClassifier(all)
	for key := range all {
		all[key].class = c.classOf(key)
	}
	return all
}

// classifier holds the signs and the bases by which keys get their classes.
type classifier struct {
	*requests
	all   []profile
	bases bases

	even      func(*profile) bool
	sleepless func(*profile) bool
	batch     func(*profile) bool
}

func (r *requests) newClassifier(all []profile) *classifier {
	most := int(heavyShare * float64(len(all)))
	c := &classifier{
		requests:  r,
		all:       all,
		even:      unlessCommon(all, most, (*profile).isEven),
		sleepless: unlessCommon(all, most, (*profile).isSleepless),
		batch:     unlessCommon(all, most, (*profile).isBatch),
	}
	crowds := 0
	for key := range all {
		if c.isCrowd(key) {
			crowds++
		}
	}
	hasCrowds := crowds <= most // otherwise they are ordinary here
	for i := range scales {
		rest := histogram{}
		for key := range all {
			p := &all[key]
			isApart := c.hasSign(p) || hasCrowds && c.isCrowd(key)
			if !isApart {
				rest[int64(p.peaks[i])]++
			}
		}
		c.bases[i] = basePeak(rest.peaks(), i == 0)
	}
	return c
}

// hasSign reports whether a rule of time shows that a key is a script or a batch.
func (c *classifier) hasSign(p *profile) bool { return c.even(p) || c.sleepless(p) || c.batch(p) }

// isCrowd reports whether a key may be many people.
func (c *classifier) isCrowd(key int) bool {
	p := &c.all[key]
	isHuman := p.hours >= crowdHours && p.load() < clockLoad && !c.sleepless(p)
	return isHuman && distinct(c.traits[key].agents) >= crowdAgents
}

// classOf returns the class of a key.
func (c *classifier) classOf(key int) Class {
	p := &c.all[key]
	switch {
	case !c.bases.isHeavy(p):
		return Ordinary
	case c.isCrowd(key):
		return Crowd
	case c.batch(p):
		return Batch
	case c.sleepless(p):
		return Sleepless
	case c.even(p):
		return Even
	case !c.bases.isFar(p):
		return Ordinary
	case p.hours >= crowdHours && p.load() < evenLoad && c.bases.isWide(p):
		return Crowd // one busy client or many: nothing else shows the difference
	}
	return Apart
}

// isFar reports whether size alone shows that a key is no visitor.
func (b *bases) isFar(p *profile) bool {
	for i, base := range b {
		isMinute := i == 0 // its base lies below a gap already
		isAbove := int64(p.peaks[i]) > base
		isFarAbove := float64(p.peaks[i]) >= gapOfScripts*float64(max(1, base))
		if isAbove && (isMinute || isFarAbove) {
			return true
		}
	}
	return false
}

// isWide reports whether a key is far above all others only over hours or days, as a crowd is whose
// members come one after another.
func (b *bases) isWide(p *profile) bool { return int64(p.peaks[0]) <= b[0] }

// unlessCommon returns a rule that holds for no key if it would hold for more than most: it is
// then the way of all clients of this log.
func unlessCommon(all []profile, most int, is func(*profile) bool) func(*profile) bool {
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

// basePeak returns the peak below the gap that shows scripts by size alone: the lowest one of
// gapOfScripts, or else, of minutes, the highest one of gapOfMinutes. Without a gap it is the
// largest peak.
func basePeak(peaks []PeakCount, isMinute bool) int64 {
	total := float64(keysOf(peaks))
	below := int64(0) // keys up to the peak
	limit := largest(peaks)
	for i, p := range peaks[:max(0, len(peaks)-1)] {
		below += p.Keys
		if float64(below) < (1-heavyShare)*total {
			continue
		}
		next := peaks[i+1].Peak
		switch {
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
