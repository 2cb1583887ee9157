package suggest

import (
	"maps"
	"math"
	"slices"
)

// behaviour describes the requests of one key without regard to a limit. People and the
// offices behind one address send bursts with pauses, so their fullest minute is far above
// the others. Scripts are steady: their fullest minute is like the others.
type behaviour struct {
	peak     int64 // requests in the fullest minute
	minutes  int64 // minutes with requests; each begins with the first request after the last one
	requests int64
}

const minute = 60 * second

// behaviourOf returns the behaviour of a key.
func (h *history) behaviourOf(requests []request) behaviour {
	h.reset(minute, math.MaxInt64)
	b := behaviour{requests: int64(len(requests))}
	end := int64(math.MinInt64)
	for _, r := range requests {
		h.allow(request{r.at, 1})
		if r.at >= end {
			end = r.at + minute
			b.minutes++
		}
	}
	b.peak = h.most
	return b
}

// load returns the mean of the minutes as a share of the fullest one, above 0 and up to 1.
func (b behaviour) load() float64 {
	return min(1, float64(b.requests)/float64(b.minutes*b.peak))
}

// certainty returns how much load means, 0 … 1. A client with a single visit is steady by
// chance.
func (b behaviour) certainty() float64 {
	return clamp(float64(b.minutes-2)/6, 0, 1)
}

const steadyLoad = 0.6 // people and offices lie below, scripts above

// population describes the behaviour of all keys.
type population struct {
	peak, requests float64 // the 95th percentiles of ordinary keys
	steadiness     float64 // weight of steadiness, 0 where many keys are steady
	apart          int64   // larger peaks are those of scripts by size alone
}

// populationOf describes all keys.
func (r *requests) populationOf() population {
	type pair struct{ peaks, requests histogram }
	all, uneven := pair{histogram{}, histogram{}}, pair{histogram{}, histogram{}}
	certain, steady, unevenKeys := 0.0, 0.0, 0
	var h history
	r.eachKey(func(_ uint32, requests []request) {
		b := h.behaviourOf(requests)
		all.peaks[b.peak]++
		all.requests[b.requests]++
		certain += b.certainty()
		if b.load() >= steadyLoad && b.minutes > 2 {
			steady += b.certainty()
			return
		}
		unevenKeys++
		uneven.peaks[b.peak]++
		uneven.requests[b.requests]++
	})
	reference := all
	if unevenKeys > r.keys.Len()/2 {
		reference = uneven
	}
	return population{
		peak:       float64(percentile(reference.peaks.peaks(), 0.95)),
		requests:   float64(percentile(reference.requests.peaks(), 0.95)),
		steadiness: clamp(2-4*steady/max(1, certain), 0, 1),
		apart:      apart(all.peaks.peaks()),
	}
}

const (
	gapOfOffices = 4    // a gap that an office may leave to the other keys
	gapOfScripts = 8    // a gap that only scripts leave
	heavyShare   = 0.25 // most of the keys above a gap
)

// apart returns the peak below the gap that tells scripts by size alone: the lowest one of
// gapOfScripts, or else the highest one of gapOfOffices. Without a gap it is the largest peak.
func apart(peaks []PeakCount) int64 {
	below, total, limit := int64(0), float64(keysOf(peaks)), largest(peaks)
	for i, p := range peaks[:max(0, len(peaks)-1)] {
		below += p.Keys
		if float64(below) < (1-heavyShare)*total {
			continue
		}
		switch next := peaks[i+1].Peak; {
		case next >= gapOfScripts*p.Peak:
			return p.Peak
		case next >= gapOfOffices*p.Peak:
			limit = p.Peak
		}
	}
	return limit
}

// isScript reports whether a key behaves like a script: far larger than others, or steady
// with more requests than others. The weights fit planted clients of many kinds (TestSuggestionsSeparateScripts).
func (p population) isScript(b behaviour) bool {
	if b.peak > p.apart {
		return true
	}
	steady := p.steadyWeight(b)
	peak := math.Log(float64(b.peak) / p.peak)
	requests := math.Log(float64(b.requests) / p.requests)
	return steady+(1.5-p.steadiness)*peak+requests/4 > 1.5
}

// steadyWeight returns how much the steadiness of a key shows a script: 1 and more is certain
// without regard to its size, and below 0 is a sign of people.
func (p population) steadyWeight(b behaviour) float64 {
	return p.steadiness * b.certainty() * clamp(10*(b.load()-steadyLoad), -4, 3)
}

func clamp(x, low, high float64) float64 { return max(low, min(high, x)) }

// scripts returns the keys that behave like scripts, and those of them that are steady.
func (r *requests) scripts() (scripts, steady []bool) {
	p := r.populationOf()
	scripts, steady = make([]bool, r.keys.Len()), make([]bool, r.keys.Len())
	var h history
	r.eachKey(func(key uint32, requests []request) {
		b := h.behaviourOf(requests)
		scripts[key] = p.isScript(b)
		steady[key] = scripts[key] && p.steadyWeight(b) >= 1
	})
	return scripts, steady
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
	rank := int64(math.Ceil(share*float64(keysOf(all)) - 1e-9)) // 0.999 × 1000 is slightly above 999
	for _, p := range all {
		if rank -= p.Keys; rank <= 0 {
			return p.Peak
		}
	}
	return 0
}

// largest returns the last of sorted peaks, 0 without any.
func largest(all []PeakCount) int64 { return percentile(all, 1) }
