package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// Certainty is how sure a suggestion is.
type Certainty string

// The certainties.
const (
	Sure    Certainty = "sure"    // a rule of time shows each stopped key
	Likely  Certainty = "likely"  // size alone shows some of them
	Unknown Certainty = "unknown" // the log cannot show it
)

// Advice is what one rule found, as a sentence.
type Advice struct {
	Rule Class        `json:"rule"`
	Text string       `json:"text"`
	Keys []replay.Key `json:"keys"` // the heaviest ones, at most maxAdvised
}

// Swarm is the rule of many keys with few requests each.
const Swarm Class = "swarm"

// Exempt is a key that a suggestion spares by a plan.
type Exempt struct {
	Key   replay.Key `json:"key"`
	Peak  int64      `json:"peak"`  // units
	Limit int64      `json:"limit"` // units per window of the plan
}

const maxAdvised = 20

// advised is a key that a rule names.
type advised struct {
	key  uint32
	peak int64 // in the window of the advice
}

// keysOfClass returns the keys of a class, with those of the largest peaks in a window first.
func (r *requests) keysOfClass(keys []profile, class Class, window int64) (all []advised) {
	var h history
	var buffer []request
	for key := range keys {
		if keys[key].class == class {
			buffer = r.requestsOf(uint32(key), buffer[:0])
			all = append(all, advised{uint32(key), h.peak(window, buffer)})
		}
	}
	slices.SortFunc(all, func(a, b advised) int {
		return cmp.Or(cmp.Compare(b.peak, a.peak), cmp.Compare(a.key, b.key))
	})
	return all
}

// adviser writes the advice about the suggestion of the best window.
type adviser struct {
	*requests
	keys     []profile
	measured *measured
	detail   *detail
	named    func(key uint32) replay.Key

	result *Result
	window *Window     // the best one of result
	s      *Suggestion // the one of window
}

// advise adds the sentences of all rules, the exempt keys and the headline.
func (a *adviser) advise() {
	a.s.Certainty = Sure
	switch {
	case a.s.Basis == Few:
		a.s.Certainty = Unknown
	case a.s.hours > 0:
		a.s.Certainty = Likely
	}
	const alike = " alike in each minute, without the pauses of people"
	a.add(Even, "sends"+alike, "send"+alike)
	const awake = " steady through hours in which people sleep"
	if a.add(Sleepless, "is"+awake, "are"+awake) != nil {
		a.extend("; a monitor of your own is too, and needs an override")
	}
	if a.detail.apartKeys > 0 {
		a.s.Certainty = Likely
	}
	const above = " far above all others, by size alone"
	if a.add(Apart, "is"+above, "are"+above) != nil {
		a.extend("; a busy client is possible, so look at its requests first")
	}
	a.adviseCrowd()
	a.adviseBatch()
	swarm := a.findSwarm(a.keys, a.result)
	if swarm != nil {
		a.result.Advice = append(a.result.Advice, *swarm)
	}
	a.s.Headline = headline(a.result, a.window, a.detail, swarm)
}

// add adds the advice about a class: the words for one key, or for many. It returns the keys, nil
// if there are none.
func (a *adviser) add(class Class, one, many string) []advised {
	all := a.keysOfClass(a.keys, class, a.measured.window)
	if len(all) == 0 {
		return nil
	}
	advice := Advice{Rule: class}
	var names []string
	for _, k := range all[:min(len(all), maxAdvised)] {
		advice.Keys = append(advice.Keys, a.named(k.key))
		if len(names) < 3 {
			names = append(names, keyText(a.named(k.key)))
		}
	}
	list := strings.Join(names, ", ")
	if n := len(all) - len(names); n > 0 {
		list += fmt.Sprintf(" and %s more", grouped(int64(n)))
	}
	if len(all) == 1 {
		advice.Text = list + " " + one
	} else {
		advice.Text = fmt.Sprintf("%s keys %s: %s", grouped(int64(len(all))), many, list)
	}
	a.result.Advice = append(a.result.Advice, advice)
	return all
}

// extend adds words to the last advice.
func (a *adviser) extend(words string) {
	last := len(a.result.Advice) - 1
	a.result.Advice[last].Text += words
}

// adviseCrowd adds the advice about keys that may be many people.
func (a *adviser) adviseCrowd() {
	crowd := a.add(Crowd, "may be many people", "may each be many people")
	if crowd == nil {
		return
	}
	first := crowd[0]
	a.extend(a.crowdText(first.key))
	if len(crowd) == 1 {
		a.extend("; the limit spares it" + a.measured.override(first.peak, a.window))
	} else {
		a.extend("; the limit spares them")
	}
	if a.s.Basis != Gap && distinct(a.traits[first.key].agents) < crowdAgents {
		a.s.Certainty = Unknown
	}
}

// adviseBatch adds the advice about keys that run in the same hours, and exempts those above the
// limit.
func (a *adviser) adviseBatch() {
	const nightly = " in the same hours of several days"
	batch := a.add(Batch, "runs"+nightly, "run"+nightly)
	if batch == nil {
		return
	}
	plan := a.measured.withHeadroom(a.measured.batch, Spare).Limit
	if a.measured.batch <= a.s.Limit {
		a.extend("; the limit spares such batches")
	} else {
		a.extend(fmt.Sprintf("; for batches of your own a plan of %s per %s is right, "+
			"and others are stopped by the limit", grouped(plan), answer.Span(a.window.Window)))
	}
	for _, k := range batch {
		if k.peak > a.s.Limit {
			exempt := Exempt{Key: a.named(k.key), Peak: k.peak, Limit: plan}
			a.s.Exempt = append(a.s.Exempt, exempt)
		}
	}
}

// crowdText returns the reasons why a key may be many people.
func (r *requests) crowdText(key uint32) string {
	t := &r.traits[key]
	n := distinct(t.agents)
	switch {
	case n == 0:
		return " (its minutes differ and it pauses), or one busy client: " +
			"the log has no user agent, so it cannot show which"
	case n < crowdAgents:
		return fmt.Sprintf(" with one browser (its minutes differ and it pauses), "+
			"or one busy client: %s cannot show which",
			counted(int64(n), "user agent", "user agents"))
	}
	text := fmt.Sprintf(" (about %d user agents", n)
	if t.paths != 0 {
		text += fmt.Sprintf(", %d paths", distinct(t.paths))
	}
	return text + ", with the pauses of people)"
}

// override returns the alternative to a limit that spares a crowd: a lower limit for the others,
// with an override for the crowd.
func (m *measured) override(peak int64, w *Window) string {
	others := int64(0)
	for _, p := range m.ordinary {
		if p.Peak < peak {
			others = p.Peak
		}
	}
	if m.crowd > peak || float64(peak) < gapRatio*float64(max(1, others)) {
		return ""
	}
	lower := m.withHeadroom(others, Spare).Limit
	if lower >= w.Suggested.Limit {
		return ""
	}
	return fmt.Sprintf(", and with an override of %s for it %s per %s is enough for the others",
		grouped(m.withHeadroom(peak, Spare).Limit), grouped(lower), answer.Span(w.Window))
}

// headline returns the advice in one sentence.
func headline(r *Result, w *Window, d *detail, swarm *Advice) string {
	s := &w.Suggested
	line := s.Line
	if swarm != nil {
		return swarm.Text
	}
	others := "no other"
	if left := s.KeysDenied - d.scriptKeys - d.batchKeys; left > 0 {
		others = counted(left, "other", "others")
	}
	text := ""
	switch {
	case s.hours > 0:
		text = fmt.Sprintf("%s in all denies requests in %s that stand apart, and in no other hour",
			line, counted(s.hours, "hour", "hours"))
	case s.Basis == Gap:
		scripts := counted(d.scriptKeys, "client", "clients")
		text = fmt.Sprintf("%s stops %s and %s", line, scripts, others)
	case s.Basis == Few:
		text = fmt.Sprintf("too little to advise: %s spares all clients of this log", line)
	case s.KeysDenied == d.batchKeys:
		text = fmt.Sprintf("no client stands apart: %s spares all of them", line)
	default:
		left := counted(s.KeysDenied-d.batchKeys, "of them", "of them")
		text = fmt.Sprintf("no client stands apart: %s spares all but %s", line, left)
	}
	if n := d.ordinary(); n*100 > r.Requests && s.hours == 0 {
		text = fmt.Sprintf("warning: %s denies %s of all requests, "+
			"sent by clients that are no scripts", line, percentOf(n, r.Requests))
	}
	if d.batch > 0 {
		text += fmt.Sprintf(", with a plan for %s: without it the limit denies %s of all requests, "+
			"which may be batches of your own",
			counted(d.batchKeys, "key", "keys"), percentOf(d.batch, r.Requests))
	}
	return text
}

// The bounds of a swarm.
const (
	swarmRequests = 5         // most of a key: guessers try a few times from each address
	swarmShare    = 1.0 / 3   // least share of all keys
	swarmKeys     = 50        // least number of keys
	swarmSpan     = 10 * hour // a night
	swarmRate     = 4         // times as many such keys in an hour as at other times
	swarmPath     = 0.9       // share of them with one path, the same
)

// lightKey is a key with few requests in one night.
type lightKey struct {
	key   uint32
	first int64 // instant of its first request
}

// lightKeys returns the keys with few requests in one night by their first requests.
func (r *requests) lightKeys(keys []profile) (all []lightKey) {
	var buffer []request
	for key := range keys {
		if keys[key].requests > swarmRequests {
			continue
		}
		buffer = r.requestsOf(uint32(key), buffer[:0])
		if first, last := buffer[0].at, buffer[len(buffer)-1].at; last-first <= swarmSpan {
			all = append(all, lightKey{uint32(key), first})
		}
	}
	slices.SortFunc(all, func(a, b lightKey) int { return cmp.Compare(a.first, b.first) })
	return all
}

// fullestNight returns the most of sorted keys that appear within swarmSpan.
func fullestNight(all []lightKey) (night []lightKey) {
	begin := 0
	for i := range all {
		for all[begin].first < all[i].first-swarmSpan {
			begin++
		}
		if i-begin >= len(night) {
			night = all[begin : i+1]
		}
	}
	return night
}

// commonPath returns the number of the path to which nearly all of the keys sent all of their
// requests; 0 if there is none.
func (r *requests) commonPath(night []lightKey) uint32 {
	times := map[uint32]int{}
	for _, k := range night {
		if t := &r.traits[k.key]; distinct(t.paths) == 1 && t.path > 0 {
			times[t.path]++
			if float64(times[t.path]) >= swarmPath*float64(len(night)) {
				return t.path
			}
		}
	}
	return 0
}

// findSwarm returns the advice on many keys that appear in one night with few requests each,
// which no limit by this key can stop; nil if there are none. A log that is too short to compare
// the night with other times must show that most of the requests fail.
func (r *requests) findSwarm(keys []profile, result *Result) *Advice {
	all := r.lightKeys(keys)
	night := fullestNight(all)
	if len(night) < swarmKeys || float64(len(night)) < swarmShare*float64(len(keys)) {
		return nil
	}
	requests := int64(0)
	failed := int64(0)
	largest := uint32(0) // the requests of the key with the most
	for _, k := range night {
		requests += int64(keys[k.key].requests)
		failed += int64(r.traits[k.key].failed)
		largest = max(largest, keys[k.key].requests)
	}
	mostFail := failed*2 > requests
	nights := float64(r.slots.To-r.slots.From)/float64(swarmSpan) - 1 // the others
	isRare := nights > 1 && float64(len(night)) >= swarmRate*float64(len(all)-len(night))/nights
	path := r.commonPath(night)
	hasPaths := slices.ContainsFunc(r.traits, func(t traits) bool { return t.paths != 0 })
	if hasPaths && path == 0 {
		return nil // visitors come to many pages
	}
	isShortLog := nights <= 1
	if !isRare && !(isShortLog && mostFail) {
		return nil // visitors come as often at other times
	}
	per := "key"
	if len(result.Dimensions) > 0 {
		per = strings.Join(result.Dimensions, " and ")
	}
	text := fmt.Sprintf("no limit per %s helps: "+
		"%s of the keys appear within one night with at most %s each",
		per, percentOf(int64(len(night)), int64(len(keys))),
		counted(int64(largest), "request", "requests"))
	where := ""
	if path > 0 {
		shown := answer.Shown(r.paths[path])
		text += ", all to " + shown
		where = " --where path=" + shown
	}
	if mostFail {
		text += ", and most fail"
	}
	text += "; limit by account, such as --key account=FIELD, or in all: --key ''" + where
	return &Advice{Rule: Swarm, Text: text, Keys: []replay.Key{}}
}

// keyText returns a key such as ip=192.0.2.7.
func keyText(key replay.Key) string {
	var words []string
	for _, p := range key {
		words = append(words, pairText(p))
	}
	return strings.Join(words, " ")
}

func pairText(p enforce.Pair) string { return p.Name + "=" + answer.Shown(p.Value) }

// counted returns a number with its word.
func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// percentOf returns a share such as 91 %.
func percentOf(part, whole int64) string {
	share := float64(part) * 100 / float64(max(1, whole))
	if share < 10 {
		return fmt.Sprintf("%.1f %%", share)
	}
	return fmt.Sprintf("%.0f %%", share)
}

// grouped returns a number with commas between groups of three digits.
func grouped(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
