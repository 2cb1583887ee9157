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
	Hour      Class = "hour"      // far above the others of its hours
	Apart     Class = "apart"     // far above all others, by size alone
	Crowd     Class = "crowd"     // may be many people: an office, a school or a mobile network
	Batch     Class = "batch"     // the same hours of several days, and nothing between
	Unclear   Class = "unclear"   // above all others, and no rule shows the reason
)

// isScript reports whether a limit may deny keys of the class.
func (c Class) isScript() bool { return c.isTimed() || c == Apart }

// isTimed reports whether a rule of time shows that the keys of the class are scripts.
func (c Class) isTimed() bool { return c == Even || c == Sleepless || c == Hour }

// isSpared reports whether a limit must not deny keys of the class.
func (c Class) isSpared() bool { return c == Ordinary || c == Crowd || c == Unclear }

// The bounds of the rules, with their reasons.
const (
	// gapRatio is how far a heavy key is above the others: 5 against 4 is no gap, and a limit
	// between needs room on both sides.
	gapRatio = 1.5

	// gapOfScripts is the ratio of a gap that shows scripts by size alone: no visitor sends as much
	// as eight others. gapOfMinutes is that of peaks per minute. It is half as large, because one visitor
	// opens only a few pages at a time.
	gapOfScripts = 8
	gapOfMinutes = 4

	// A visitor may read fewer than visitorOfHour pages in an hour, and send less than visitorRatio times
	// as many requests as the others of the hour on average, because some of them look at one page.
	visitorOfHour = 40
	visitorRatio  = 20

	// gapOfUnclear is the ratio of a gap above which a key of no other class is unclear. In an
	// ordinary log one visitor has a few more requests than all others, and seldom twice as many.
	// unclearLeast is the least difference in requests, since a smaller one is chance.
	gapOfUnclear = 2
	unclearLeast = 10

	// heavyShare is the largest share of keys above a gap, and the largest share with a sign of
	// scripts. Behaviour of more keys is ordinary.
	heavyShare = 0.25

	// evenLoad is the least load of a script, the mean minute as a share of the fullest one. People
	// pause, so their load is smaller. At clockLoad nearly all minutes are equal, which is too
	// regular even for a crowd.
	evenLoad  = 0.6
	clockLoad = 0.85

	// evenMean is the least mean of requests in a minute of an even key: people do not open a page
	// every six seconds for long. clockMean is that at clockLoad. Fewer requests have equal minutes
	// by chance.
	evenMean  = 10
	clockMean = 4

	evenMinutes = 10 // the least number of minutes: a short visit is even by chance

	pause = 3 * hour  // people pause longer for sleep
	awake = 20 * hour // people sleep after fewer hours

	// quietShare is the least share of a script's requests in the quietest six hours, which have
	// nearly a quarter of them.
	quietShare = 0.15

	// A batch has nearly all of its requests in batchHours of the day: a run of six hours, as long as
	// people sleep, touches seven. Between two runs are more than batchPause.
	batchHours = 7
	batchPause = 12 * hour

	// Runs too short to be even are a batch if there are shortRuns of them within shortHours: the
	// chance that a visitor comes so is below 1 of 100.
	shortRuns  = 3
	shortHours = 2

	// aloneShare is the least share of a key's requests in hours in which it is far above all
	// others: one hour of many is chance.
	aloneShare = 0.9

	crowdAgents = 8 // the least number of user agents or accounts: one person has few of them
	crowdHours  = 4 // the least number of hours, or all of a shorter log: a crowd stays for long
)

const (
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// scales are the windows in which a key can be heavy.
var scales = [...]int64{minute, hour, day}

// visitor is, by scale, the number of requests below which a key may be a visitor, however few the
// others send. In many logs most keys look at one page, and some read for hours.
var visitor = [len(scales)]int64{12, visitorOfHour, 100}

// profile describes the requests of one key without regard to a limit.
type profile struct {
	peaks    [len(scales)]uint32 // requests in the fullest of each of scales
	requests uint32
	alone    uint32 // requests in hours in which the key is far above all others
	minutes  uint32 // minutes with requests; each begins with the first request after the last one
	stretch  uint16 // minutes of the longest stretch without a pause
	hours    uint16 // hours with requests, as minutes
	runs     uint16 // stretches with more than batchPause between them
	busy     uint8  // least number of hours of the day that have 90 % of the requests
	quiet    uint8  // percent of the requests of a day in its six quietest hours
	isBusy   bool   // in one of the hours of alone it sends more than a visitor may
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
	return int64(p.stretch)*minute >= awake && float64(p.quiet) >= 100*quietShare
}

// isAlone reports whether a key is far above the others of nearly all of its hours.
func (p *profile) isAlone() bool {
	return p.isBusy && float64(p.alone) >= aloneShare*float64(p.requests)
}

// isBatch reports whether a key runs in the same hours of several days, and not between.
func (p *profile) isBatch() bool {
	isLong := p.isEven() && p.runs >= 2 && p.busy <= batchHours
	isShort := p.minutes <= uint32(p.runs)*evenMinutes && p.runs >= shortRuns && p.busy <= shortHours
	return isLong || isShort
}

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
	begin := requests[0].at // the first request since the last pause
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
	p.busy = 24
	if p.runs >= 2 { // no rule reads it of other keys
		p.busy = busyHours(&clock, int64(len(requests)))
	}
	if longest >= awake {
		p.quiet = quietOf(&clock, requests[0].at, last, int64(len(requests)))
	}
	return p
}

// quietOf returns the percentage of the requests of a day in its six quietest hours, by the requests
// in each hour of the day. If the span from first to last has only a part of these hours, the rate in
// that part counts: a steady key has 25 in a span of any length.
func quietOf(clock *[24]int64, first, last, all int64) uint8 {
	var spans [24]int64 // the parts of the span in each hour of the day
	for i := range spans {
		spans[i] = (last - first) / day * hour
	}
	end := first + (last-first)%day
	for at := first; at < end; {
		next := min((at/hour+1)*hour, end)
		spans[at/hour%24] += next - at
		at = next
	}
	least := 100.0
	for from := range 24 {
		n, span := int64(0), int64(0)
		for i := range 6 {
			n += clock[(from+i)%24]
			span += spans[(from+i)%24]
		}
		if span >= 4*hour { // otherwise too little of the six hours
			share := float64(n) / float64(span) * 6 * hour
			perDay := float64(all) / float64(last-first) * day
			least = min(least, 100*share/perDay)
		}
	}
	return uint8(least)
}

// busyHours returns the least number of neighbouring hours of the day that have 90 % of all requests.
func busyHours(clock *[24]int64, all int64) (busy uint8) {
	var before [2*24 + 1]int64 // the requests before each hour of two equal days
	for i := range 2 * 24 {
		before[i+1] = before[i] + clock[i%24]
	}
	busy = 24
	for from := range 24 {
		for busy > 1 && (before[from+int(busy)-1]-before[from])*10 >= all*9 {
			busy--
		}
	}
	return busy
}

// traits summarizes the requests of one key. Each different value of a field sets one of 64 bits in
// agents, users or paths, and failed counts the failed requests.
type traits struct {
	agents, users, paths uint64
	path                 uint32 // the number of the first path, 0 for none or another one
	failed               uint32
}

// isOfMany reports whether the requests have the user agents or the accounts of many people. If most
// of them fail, the accounts may be guesses.
func (t *traits) isOfMany(requests uint32) bool {
	hasAccounts := distinct(t.users) >= crowdAgents && t.failed <= requests/2
	return distinct(t.agents) >= crowdAgents || hasAccounts
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
func (r *requests) classify(all []profile) {
	r.hours.markAlone(all)
	c := r.newClassifier(all)
	for key := range all {
		all[key].class = c.classOf(key)
	}
	c.markUnclear()
}

// markUnclear gives their class to ordinary keys that are above all others over hours or days. A
// minute is left out: one visitor opens a few pages at a time.
func (c *classifier) markUnclear() {
	var base bases
	for i := 1; i < len(scales); i++ {
		ordinary := histogram{}
		for key := range c.all {
			if c.all[key].class == Ordinary {
				ordinary[int64(c.all[key].peaks[i])]++
			}
		}
		base[i] = unclearBase(ordinary.peaks())
	}
	for key := range c.all {
		p := &c.all[key]
		for i := 1; i < len(scales); i++ {
			if p.class == Ordinary && int64(p.peaks[i]) > base[i] {
				p.class = Unclear
			}
		}
	}
}

// unclearBase returns the peak below the lowest gap of gapOfUnclear that has few keys above it.
// Without such a gap it returns the largest peak.
func unclearBase(peaks []PeakCount) int64 {
	total := float64(keysOf(peaks))
	below := int64(0) // keys up to the peak
	for i, p := range peaks[:max(0, len(peaks)-1)] {
		below += p.Keys
		next := peaks[i+1].Peak
		isWide := next >= gapOfUnclear*p.Peak && next-p.Peak >= unclearLeast
		if isWide && float64(below) >= (1-heavyShare)*total {
			return p.Peak
		}
	}
	return largest(peaks)
}

// classifier holds the signs and the bases by which keys get their classes.
type classifier struct {
	*requests
	all        []profile
	bases      bases
	crowdHours uint16 // crowdHours, or the hours of a shorter log

	even      func(*profile) bool
	sleepless func(*profile) bool
	batch     func(*profile) bool
	alone     func(*profile) bool
}

func (r *requests) newClassifier(all []profile) *classifier {
	most := int(heavyShare * float64(len(all)))
	hours := (r.slots.To - r.slots.From) / hour
	c := &classifier{
		requests:   r,
		all:        all,
		crowdHours: uint16(max(1, min(crowdHours, hours))),
		even:       unlessCommon(all, most, (*profile).isEven),
		sleepless:  unlessCommon(all, most, (*profile).isSleepless),
		batch:      unlessCommon(all, most, (*profile).isBatch),
		alone:      unlessCommon(all, most, (*profile).isAlone),
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
			isOther := c.hasSign(key) || hasCrowds && c.isCrowd(key)
			if !isOther {
				rest[int64(p.peaks[i])]++
			}
		}
		c.bases[i] = basePeak(rest.peaks(), visitor[i], i == 0)
	}
	return c
}

// hasSign reports whether a rule of time shows that a key is a script or a batch.
func (c *classifier) hasSign(key int) bool {
	p := &c.all[key]
	return c.even(p) || c.sleepless(p) || c.batch(p) || c.isAlone(key)
}

// isAlone reports whether a key is far above the others of its hours, and is no crowd. A log without
// user agents does not show that: a crowd may be awake while the others sleep.
func (c *classifier) isAlone(key int) bool {
	p := &c.all[key]
	isOne := p.hours < c.crowdHours || c.requests.all[key].traits.agents != 0
	return c.alone(p) && isOne && !c.isCrowd(key)
}

// isCrowd reports whether a key may be many people.
func (c *classifier) isCrowd(key int) bool {
	p := &c.all[key]
	isHuman := p.hours >= c.crowdHours && p.load() < clockLoad && !c.sleepless(p)
	return isHuman && c.requests.all[key].traits.isOfMany(p.requests)
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
	case c.isAlone(key):
		return Hour
	case !c.bases.isFar(p):
		return Ordinary
	case p.hours >= c.crowdHours && p.load() < evenLoad && c.bases.isWide(p):
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

// isWide reports whether a key is far above all others over hours or days, and not in a minute.
// The members of a crowd come one after another, so it may be one.
func (b *bases) isWide(p *profile) bool { return int64(p.peaks[0]) <= b[0] }

// unlessCommon returns a rule that holds for the same keys as is. If these are more than most, it
// holds for none: the behaviour is ordinary in this log.
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

// basePeak returns the peak below the gap that shows scripts by size alone. That is the lowest gap
// of gapOfScripts with peaks from least on above it. For minutes without one it is the highest gap of
// gapOfMinutes. Without any gap basePeak returns the largest peak.
func basePeak(peaks []PeakCount, least int64, isMinute bool) int64 {
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
		case next < least:
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
