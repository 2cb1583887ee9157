package policy

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// onlyLimitName is the name of the limit of a policy with limit:.
const onlyLimitName = "limit"

// limitBuilder is a limit while the checker reads it, with the offsets of its parts in the
// document.
type limitBuilder struct {
	limit     weir.Limit
	unit      string
	warn      int // percent, in the long form; 0 = none
	unlimited bool
	hasWindow bool
	hasApart  bool
	hasHold   bool
	period    weir.Period // the window's, if it is named hour, day, week or month
	anchor    weir.Period // Month or Week: the period that a from needs; NoPeriod without one
	at        offsets

	// kinds are those that words select. KindFixedFromFirst also selects KindFixed.
	kinds [weir.KindConcurrency + 1]bool
}

// offsets are those of the parts of a limit. A missing part has the offset of the limit.
type offsets struct {
	name, max, window, apart, block, kind, warn int
	burst, zone, from, hold                     int
	keys                                        []int
}

// offsetsAt returns the offsets of a limit at an offset, without any of its parts.
func offsetsAt(at int) offsets {
	return offsets{
		max:    at,
		window: at,
		apart:  at,
		block:  at,
		kind:   at,
		burst:  at,
		zone:   at,
		from:   at,
		hold:   at,
	}
}

func (d *limitBuilder) setMax(at int, word string) {
	d.at.max = at
	if word == wordUnlimited {
		d.unlimited = true
		return
	}
	n, problem := parseNumber(word)
	if problem != "" {
		next := "use a whole number such as 10 or 200_000, or unlimited"
		if len(word) <= maxLength {
			if meant, unclear := parseNumber(respellCount(word)); unclear == "" {
				next = "write " + formatNumber(meant)
			}
		}
		fail(at, next, "%s %s", clip(word), problem)
	}
	d.limit.Max = n
}

const unitPattern = `[A-Za-z][A-Za-z0-9_-]{0,31}`

var unitForm = regexp.MustCompile("^" + unitPattern + "$")

func (d *limitBuilder) setUnit(at int, word string) {
	if _, isFactor := factors[word]; isFactor && len(word) > 1 {
		fail(at, "write the whole number, such as 1_000_000 for one million",
			"%s is a number, not the unit of a limit", clip(word))
	}
	if !unitForm.MatchString(word) ||
		slices.Contains([]string{wordPer, wordApart, wordUnlimited}, word) {
		fail(at, "use one word of letters, such as messages or cents",
			"%s cannot be the unit of a limit", clip(word))
	}
	d.unit = word
}

func (d *limitBuilder) setWindow(at int, word string) {
	length, ok := parseWindow(word)
	if !ok {
		fail(at, nextWindow(word), "%s is not a window", clip(word))
	}
	d.limit.Window = length
	d.hasWindow = true
	d.period = periods[word]
	d.at.window = at
}

// nextWindow returns the next step for a word that is not a window.
func nextWindow(word string) string {
	if len(word) > maxLength {
		return useWindow
	}
	meant := strings.TrimSuffix(respellWindow(word), "s")
	_, problem := parseNumber(word)
	switch {
	case looksLikeWindow(meant):
		return "write " + meant
	case word == "year":
		return "a window has one length, and this one varies: use one such as 365d"
	case problem == "":
		return "write the number and its unit in one word, such as 90s, 30m, 24h"
	}
	return useWindow
}

func (d *limitBuilder) setApart(at int, word string) {
	d.hasApart, d.at.apart = true, at
	d.limit.MinInterval = lengthAt(at, word)
}

func (d *limitBuilder) setHold(at int, word string) {
	d.hasHold, d.at.hold = true, at
	d.limit.MaxHold = lengthAt(at, word)
}

func (d *limitBuilder) setBlock(at int, word string) {
	d.at.block, d.limit.Block = at, lengthAt(at, word)
	checkLength(at, "block", d.limit.Block)
}

// lengthAt reads a length of time.
func lengthAt(at int, word string) time.Duration {
	length, ok := parseLength(word)
	if !ok {
		fail(at, nextLength(word), "%s is not a length of time", clip(word))
	}
	return length
}

// nextLength returns the next step for a word that is not a length of time.
func nextLength(word string) string {
	if len(word) > maxLength {
		return useLength
	}
	if meant := respellLengths(word); meant != word {
		return "write " + meant
	}
	return useLength
}

func (d *limitBuilder) addKey(at int, word string) {
	switch {
	case len(d.limit.By) == weir.MaxDimensions:
		fail(at, "count by fewer", "more than %d keys", weir.MaxDimensions)
	case d.kinds[weir.KindConcurrency] && looksLikeWindow(word):
		failAtOncePerWindow(at, strings.TrimSuffix(word, "s"))
	case looksLikeWindow(word):
		fail(at, "use one window to a limit, and a policy with several limits for several",
			"%s is a window, not a key to count by", clip(word))
	case !weir.ValidName(word):
		checkName(at, word, "a key")
	case word == wordPer || word == wordApart:
		fail(at, "name what to count by, such as user or ip",
			"%s is not a key to count by", clip(word))
	case slices.Contains(d.limit.By, word):
		fail(at, "name each key once", "%s is there already", clip(word))
	}
	d.limit.By = append(d.limit.By, word)
	d.at.keys = append(d.at.keys, at)
}

// completeUnlimited sets the numbers of an unlimited limit: it allows MaxUnits. Without a
// window, it gets the shortest that its minimum interval allows, so that its history stays small.
// Its keys stay part of the policy's key. A number in its place finds the same history
// (R12).
func (d *limitBuilder) completeUnlimited() {
	d.limit.Max = weir.MaxUnits
	if !d.hasWindow && d.limit.Kind != weir.KindConcurrency {
		d.limit.Window, d.at.window = shortestWindow(d.limit), d.at.apart
	}
}

// shortestWindow returns the window of an unlimited limit without one.
func shortestWindow(l weir.Limit) time.Duration { return max(weir.MinWindow, l.MinInterval) }

const useName = "use 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit"

// Sentence returns limit i of the policy as a line of the file: "10 messages per day per phone, 3s
// apart". ParseLimit reads such a line. The line has no name and no cells. Sentence panics unless 0
// <= i < len(p.Limits).
func (p *Definition) Sentence(i int) string {
	return sentence(p.Limits[i], valueOf(p.Units, i))
}

func sentence(l weir.Limit, unit string) string {
	line := formatNumber(l.Max)
	if l.Max == weir.MaxUnits {
		line = wordUnlimited
	}
	if unit != "" {
		line += " " + unit
	}
	line += windowSentence(&l)
	for _, key := range l.By {
		line += " per " + key
	}
	line += kindSentence(&l)
	if l.MinInterval > 0 {
		line += ", " + duration.Format(l.MinInterval) + " apart"
	}
	if l.Block > 0 {
		line += ", then block " + duration.Format(l.Block)
	}
	return line
}

// namedLimit reads a limit of a policy.
func (c *checker) namedLimit(name string, at int, value *yamlnode.Node) *limitBuilder {
	l := c.limit(value)
	l.complete()
	l.limit.Name, l.at.name = name, at
	return l
}

// limit reads a limit without its name, as a line or in the long form. The caller completes
// it.
func (c *checker) limit(value *yamlnode.Node) *limitBuilder {
	switch value.Kind {
	case yamlnode.Map:
		return c.longLimit(value)
	case yamlnode.List:
		fail(value.Offset, "write one such as 10 per minute per user; "+
			"several limits stand below limits:, each with a name", "a list in place of a limit")
	}
	inDocument := func(i int) int { return value.At(c.doc, i) }
	if c.wrongLines >= mostRespelled {
		return parseWords(value.Text, inDocument)
	}
	c.wrongLines++ // unless the line is read
	l := parseLine(value.Text, inDocument)
	c.wrongLines--
	return l
}

// longLimit reads the long form of a limit, with burst, zone, from and max_hold where the kind has
// them: {max: 10, window: 1m, per: [user], apart: 3s, block: 1h, kind: fixed, unit: messages}.
func (c *checker) longLimit(value *yamlnode.Node) *limitBuilder {
	l := &limitBuilder{at: offsetsAt(value.Offset)}
	ok := apply(c, limitWords, aLimit, value, l)
	switch atOnce := l.kinds[weir.KindConcurrency] || l.hasHold; {
	case !ok:
		panic(recorded)
	case !has(value, "max"):
		fail(value.Offset, "add max: 10, or max: unlimited", "the limit has no max")
	case !l.hasWindow && !l.unlimited && !atOnce:
		fail(value.Offset, "add window: minute, or a length such as window: 30m",
			"the limit has no window")
	}
	return l
}

func setKeys(c *checker, l *limitBuilder, key, value *yamlnode.Node) {
	addKey := text((*limitBuilder).addKey)
	if value.Kind != yamlnode.List {
		addKey(c, l, key, value)
	}
	for item := range value.Items() {
		c.try(func() { addKey(c, l, key, item) })
	}
}

// validate fails if weir's own check rejects the limit outside a policy.
func (d *limitBuilder) validate() {
	l := d.limit
	l.Name = onlyLimitName
	_, err := weir.Policy{Name: "policy", Dimensions: l.By, Limits: []weir.Limit{l}}.Compile()
	if e, wrong := errors.AsType[*weir.PolicyError](err); wrong { // Compile returns no other
		d.failBy(e)
	}
}

// failBy fails with an error of weir's own check in the words of the file.
func (d *limitBuilder) failBy(e *weir.PolicyError) {
	switch e.Field {
	case "Max":
		fail(d.at.max, "use 0 to "+formatNumber(weir.MaxUnits)+", or unlimited",
			"the count is above the largest")
	case "Window":
		checkLength(d.at.window, "window", d.limit.Window)
	case "MinInterval":
		if d.limit.Kind == weir.KindConcurrency {
			fail(d.at.apart, "use at most "+duration.Format(d.limit.MaxHold)+" apart, "+
				"or a longer hold", "the time apart is longer than the hold")
		}
		fail(d.at.apart, "use at most "+duration.Format(d.limit.Window)+" apart, "+
			"or a longer window", "the time apart is longer than the window")
	case "Burst":
		d.failByBurst()
	case "Zone":
		fail(d.at.zone, "install the tzdata of the system, or import time/tzdata in the program",
			"this machine has no data of time zone %s", clip(d.limit.Zone))
	case "Kind":
		fail(d.at.kind, "write denied: free",
			"denied: counted counts denied attempts, and those hold nothing of a concurrency limit")
	}
	problem, next, _ := strings.Cut(e.Problem, "; ")
	fail(d.at.name, next, "%s", problem)
}

// failByBurst fails because a bucket fills too slowly, or because its rate is not exact in engines
// with floating point.
func (d *limitBuilder) failByBurst() {
	rate := formatNumber(d.limit.Max) + " per " + formatWindow(d.limit.Window)
	if most := answer.MaxBurst(&d.limit); most > 0 {
		fail(d.at.burst, "use at most burst "+formatNumber(most)+", or a rounder rate",
			"a bucket of %s at %s cannot be counted exactly, or fills in more than 400 days",
			formatNumber(d.limit.Burst), rate)
	}
	fail(d.at.burst, "use a rounder rate or a shorter window",
		"a bucket at %s cannot be counted exactly, or fills in more than 400 days", rate)
}
