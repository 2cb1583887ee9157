package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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

// Advice is the finding of one rule, as a sentence.
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

// keysOfClass returns the keys of a class, with those of the largest peaks first.
func (m *measured) keysOfClass(keys []profile, class Class) (all []advised) {
	for key := range keys {
		if keys[key].class == class {
			all = append(all, advised{uint32(key), m.peakOf[key]})
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

	windows []*measured // by index of result.Windows
	details []*detail   // by index of result.Windows
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
	if a.add(Even, "sends"+alike, "send"+alike) != nil {
		a.extend("; a job of your own does too, and needs an override")
	}
	const awake = " steady through hours in which people sleep"
	if a.add(Sleepless, "is"+awake, "are"+awake) != nil {
		a.extend("; a monitor of your own and a search engine are too, and need an override")
	}
	if a.detail.bySize > 0 {
		a.s.Certainty = Likely
	}
	const alone = " far above the others of the same hour"
	if all := a.add(Hour, "is"+alone, "are"+alone); all != nil {
		if len(all) > 1 {
			a.extend("; the first one")
		}
		a.extend(a.hourText(all[0].key))
	}
	const above = " far above all others, by size alone"
	if a.add(Apart, "is"+above, "are"+above) != nil {
		a.extend("; a busy client is possible, so look at its requests first")
	}
	a.adviseCrowd()
	a.adviseBatch()
	unclear := a.adviseUnclear()
	swarm := a.findSwarm(a.keys, a.result)
	if swarm != nil {
		a.result.Advice = append(a.result.Advice, *swarm)
	}
	if a.s.Basis == Spare && a.scripts() > 0 {
		a.s.Certainty = Unknown
	}
	a.s.Headline = a.headline(swarm, unclear)
}

// add adds the advice about the keys of a class, in the words for one key or for many. It returns
// these keys.
func (a *adviser) add(class Class, one, many string) []advised {
	all := a.measured.keysOfClass(a.keys, class)
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
	p := &a.keys[first.key]
	isShown := p.hours >= crowdHours && a.all[first.key].traits.isOfMany(p.requests)
	if a.s.Basis != Gap && !isShown {
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

// adviseUnclear adds the advice about keys that no rule explains, and returns their number. If no
// other key is a script, the certainty becomes Unknown, because these may be scripts.
func (a *adviser) adviseUnclear() int {
	const unclear = " at least twice as many requests in some hour or day as the others, " +
		"and nothing shows whether "
	all := a.add(Unclear, "has"+unclear+"it is a busy client, many people or a script",
		"have"+unclear+"they are busy clients, many people or scripts")
	if all == nil {
		return 0
	}
	a.extend("; the limit spares such keys, and a log of several days may show it")
	if a.s.Basis == Spare {
		a.s.Certainty = Unknown
	}
	return len(all)
}

// hourText returns the fullest hour of a key that is far above all others in it.
func (a *adviser) hourText(key uint32) string {
	s := a.hours.fullestOf(key)
	above, base := s.hour.above()
	return fmt.Sprintf(" with %s from %s, where %s others have at most %s",
		counted(int64(s.requests), "request", "requests"),
		time.UnixMicro(s.at*hour).In(a.result.Zone).Format("2006-01-02 15:04"),
		grouped(int64(s.hour.keys-len(above))), grouped(int64(base)))
}

// crowdText returns the reasons why a key may be many people.
func (r *requests) crowdText(key uint32) string {
	t := &r.all[key].traits
	n := distinct(t.agents)
	users := distinct(t.users)
	switch {
	case users >= crowdAgents:
		return fmt.Sprintf(" (about %s, %d accounts, %d paths, with the pauses of people)",
			counted(int64(n), "user agent", "user agents"), users, distinct(t.paths))
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

// scripts returns the number of keys that are scripts.
func (a *adviser) scripts() (n int64) {
	for i := range a.keys {
		if a.keys[i].class.isScript() {
			n++
		}
	}
	return n
}

// missedText returns a text about the scripts that the suggestion does not stop, with the limit of
// another window that stops most of them; "" if there are none.
func (a *adviser) missedText() string {
	missed := a.scripts() - a.detail.scriptKeys
	if missed <= 0 {
		return ""
	}
	line := ""
	most := int64(0)
	for i := range a.result.Windows {
		w := &a.result.Windows[i]
		if w.Suggested.Basis != Gap || a.details[i].ordinary() > 0 {
			continue
		}
		if n := a.missedBy(a.windows[i], w.Suggested.Limit); n > most {
			line = w.Suggested.Line
			most = n
		}
	}
	text := ""
	if most > 0 {
		text = fmt.Sprintf(", and %s stops %s more", line, grouped(most))
	}
	switch left := missed - most; {
	case left == 1:
		text += ", while 1 that stands apart stays below it"
	case left > 1:
		text += fmt.Sprintf(", while %s that stand apart stay below it", grouped(left))
	}
	return text
}

// missedBy returns the number of scripts that the suggestion does not stop, and that a limit of another
// window does.
func (a *adviser) missedBy(other *measured, limit int64) (n int64) {
	for key := range a.keys {
		isMissed := a.keys[key].class.isScript() && a.measured.peakOf[key] <= a.s.Limit
		if isMissed && other.peakOf[key] > limit {
			n++
		}
	}
	return n
}

// apart returns a text about the clients that stand apart, for a limit that stops none of them.
func (a *adviser) apart(unclear int) string {
	scripts := a.scripts()
	switch {
	case scripts > 0:
		return counted(scripts, "client stands", "clients stand") +
			" apart, and no limit of these windows stops them alone; try a longer log"
	case unclear == 1:
		return "1 client may be a script"
	case unclear > 1:
		return fmt.Sprintf("%d clients may be scripts", unclear)
	}
	return "no client stands apart"
}

// headline returns the advice in one sentence. unclear is the number of unclear keys.
func (a *adviser) headline(swarm *Advice, unclear int) string {
	r, d := a.result, a.detail
	s := a.s
	line := s.Line
	if swarm != nil {
		if s.Basis == Gap && s.hours == 0 {
			return fmt.Sprintf("%s; and %s stops %s", swarm.Text, line,
				counted(d.scriptKeys, "client", "clients"))
		}
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
		if d.scripts*2 > r.Requests {
			text += fmt.Sprintf(", and denies %s of all requests", percentOf(d.scripts, r.Requests))
		}
		text += a.missedText()
	case s.Basis == Few:
		text = fmt.Sprintf("too little to advise: %s spares all clients of this log", line)
	case s.KeysDenied == d.batchKeys:
		text = fmt.Sprintf("%s: %s spares all of them", a.apart(unclear), line)
	default:
		left := counted(s.KeysDenied-d.batchKeys, "of them", "of them")
		text = fmt.Sprintf("%s: %s spares all but %s", a.apart(unclear), line, left)
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
