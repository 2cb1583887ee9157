package policy

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// onlyLimitName is the name of the limit of a policy with limit:, and of [ParseLimit].
const onlyLimitName = "limit"

// limitBuilder is a limit while the checker reads it, with the offsets of its parts in the
// document.
type limitBuilder struct {
	limit     weir.Limit
	unit      string
	block     time.Duration // 0 = none
	warn      int           // percent, in the long form; 0 = none
	unlimited bool
	hasWindow bool
	hasApart  bool
	hasKind   bool // in the long form
	form      limitForm
	at        offsets
}

// offsets are those of the parts of a limit. A missing part has the offset of the limit.
type offsets struct {
	name, max, window, apart, block, kind, warn int
	burst, zone, from, hold                     int
	keys                                        []int
}

// offsetsAt returns the offsets of a limit at an offset, without any of its parts.
func offsetsAt(at int) offsets {
	return offsets{max: at, window: at, apart: at, block: at, kind: at, burst: at, zone: at, from: at, hold: at}
}

func (d *limitBuilder) setMax(at int, word string) *fault {
	d.at.max = at
	if word == wordUnlimited {
		d.unlimited = true
		return nil
	}
	n, problem := parseNumber(word)
	if count, window, slash := strings.Cut(word, "/"); slash && len(count) <= maxLength && looksLikeWindow(window) {
		return faultf(at, "write "+count+" per "+window, "%s is not a whole number", clip(word))
	}
	if problem != "" {
		return faultf(at, "use a whole number such as 10 or 200_000, or unlimited", "%s %s", clip(word), problem)
	}
	d.limit.Max = n
	return nil
}

func (d *limitBuilder) setUnit(at int, word string) *fault {
	if !validUnit(word) {
		return faultf(at, "use one word of letters, such as messages or cents", "%s cannot be the unit of a limit", clip(word))
	}
	d.unit = word
	return nil
}

const unitPattern = `[A-Za-z][A-Za-z0-9_-]{0,31}`

var unitForm = regexp.MustCompile("^" + unitPattern + "$")

// validUnit reports whether s has the form of a unit and is no word of the grammar.
func validUnit(s string) bool {
	return unitForm.MatchString(s) && !slices.Contains([]string{wordPer, wordApart, wordUnlimited}, s)
}

func (d *limitBuilder) setWindow(at int, word string) *fault {
	length, ok := parseWindow(word)
	if !ok {
		return faultf(at, nextWindow(word), "%s is not a window", clip(word))
	}
	d.limit.Window, d.hasWindow, d.at.window = length, true, at
	d.form.period = periodNamed(word)
	return nil
}

// units are other spellings of units of time.
var units = map[string]struct{ name, suffix string }{
	"sec": {"second", "s"}, "second": {"second", "s"}, "min": {"minute", "m"}, "minute": {"minute", "m"}, "m": {"minute", "m"},
	"hr": {"hour", "h"}, "hour": {"hour", "h"}, "h": {"hour", "h"}, "day": {"day", "d"}, "d": {"day", "d"},
}

// maxDigits is the longest number that an error repeats: that of the longest window in
// milliseconds, with underscores.
const maxDigits = 16

// nextWindow returns the next step for a word that is not a window.
func nextWindow(word string) string {
	meant := strings.TrimSuffix(strings.ToLower(word), "s")
	digits := meant[:len(meant)-len(strings.TrimLeft(meant, "0123456789_"))]
	unit, known := units[meant[len(digits):]]
	_, problem := parseNumber(word)
	switch {
	case len(digits) > maxDigits:
		return useWindow
	case looksLikeWindow(meant):
		return "write " + meant
	case known && digits == "":
		return "write " + unit.name
	case known:
		return "write " + digits + unit.suffix
	case word == "year":
		return "a window has one length, and this one varies: use one such as 365d"
	case problem == "":
		return "write the number and its unit in one word, such as 90s, 30m, 24h"
	}
	return useWindow
}

func (d *limitBuilder) setApart(at int, word string) (f *fault) {
	d.hasApart, d.at.apart = true, at
	d.limit.MinInterval, f = lengthAt(at, word)
	return f
}

func (d *limitBuilder) setHold(at int, word string) (f *fault) {
	d.form.hasHold, d.at.hold = true, at
	d.form.hold, f = lengthAt(at, word)
	return f
}

func (d *limitBuilder) setBlock(at int, word string) (f *fault) {
	d.at.block = at
	if d.block, f = lengthAt(at, word); f == nil && outOfRange(d.block) {
		return faultOfLength(at, "block", d.block)
	}
	return f
}

// lengthAt reads a length of time.
func lengthAt(at int, word string) (time.Duration, *fault) {
	length, ok := parseLength(word)
	if !ok {
		return 0, faultf(at, useLength, "%s is not a length of time", clip(word))
	}
	return length, nil
}

func (d *limitBuilder) addKey(at int, word string) *fault {
	switch {
	case len(d.limit.By) == weir.MaxDimensions:
		return faultf(at, "count by fewer", "more than %d keys", weir.MaxDimensions)
	case d.form.atOnce && looksLikeWindow(word):
		return atOncePerWindow(at, strings.TrimSuffix(word, "s"))
	case looksLikeWindow(word):
		return faultf(at, "use one window to a limit, and a policy with several limits for several", "%s is a window, not a key to count by", clip(word))
	case !weir.ValidName(word):
		return faultf(at, useName, "%s cannot be the name of a key", clip(word))
	case word == wordPer || word == wordApart:
		return faultf(at, "name what to count by, such as user or ip", "%s is not a key to count by", clip(word))
	case slices.Contains(d.limit.By, word):
		return faultf(at, "name each key once", "%s is there already", clip(word))
	}
	d.limit.By = append(d.limit.By, word)
	d.at.keys = append(d.at.keys, at)
	return nil
}

// completeUnlimited sets the numbers of an unlimited limit: it allows MaxUnits. Without a
// window, it gets the shortest that its minimum interval allows, so that its history stays small.
// Its keys stay part of the policy's key. A number in its place finds the same history
// (R12).
func (d *limitBuilder) completeUnlimited() {
	d.limit.Max = weir.MaxUnits
	if !d.hasWindow && d.limit.Kind != weir.Concurrency {
		d.limit.Window, d.at.window = shortestWindow(d.limit), d.at.apart
	}
}

// shortestWindow returns the window of an unlimited limit without one.
func shortestWindow(l weir.Limit) time.Duration { return max(weir.MinWindow, l.MinInterval) }

const useName = "use 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit"

// Sentence returns limit i of the policy as a line of the file: "10 messages per day per
// phone, 3s apart". ParseLimit reads such a line, unless it has a block. The line has no
// name and no cells. Sentence panics unless 0 <= i < len(p.Limits).
func (p *Definition) Sentence(i int) string {
	unit := ""
	if i < len(p.Units) {
		unit = p.Units[i]
	}
	return sentence(p.Limits[i], unit, p.BlockOf(i))
}

func sentence(l weir.Limit, unit string, block time.Duration) string {
	count := formatNumber(l.Max)
	if l.Max == weir.MaxUnits {
		count = wordUnlimited
	}
	if unit != "" {
		unit = " " + unit
	}
	var keys strings.Builder
	for _, key := range l.By {
		keys.WriteString(" per " + key)
	}
	apart := ""
	if l.MinInterval > 0 {
		apart = ", " + FormatDuration(l.MinInterval) + " apart"
	}
	then := ""
	if block > 0 {
		then = ", then block " + FormatDuration(block)
	}
	return count + unit + windowSentence(&l) + keys.String() + kindSentence(&l) + apart + then
}

// addLimit reads a limit and adds it to a policy.
func (c *checker) addLimit(d *policyBuilder, name string, at int, value *yamlnode.Node) bool {
	l, ok := c.limit(value)
	if !ok || !c.accept(l.complete()) {
		d.rejected = true
		return false
	}
	l.limit.Name, l.at.name = name, at
	d.limits = append(d.limits, l)
	return true
}

// limit reads a limit without its name, as a line or in the long form. The caller completes
// it.
func (c *checker) limit(value *yamlnode.Node) (*limitBuilder, bool) {
	if value.Kind == yamlnode.Map {
		return c.longLimit(value)
	}
	if value.Kind == yamlnode.List {
		return nil, c.fail(value.Offset, "write one such as 10 per minute per user; several limits stand below limits:, each with a name", "a list in place of a limit")
	}
	l, f := parseLine(value.Text, func(i int) int { return value.At(c.doc, i) })
	return l, c.accept(f)
}

// longLimit reads {max: 10, window: 1m, per: [user], apart: 3s, block: 1h, kind: fixed, unit: messages}, with
// burst, zone, from and max_hold where the kind has them.
func (c *checker) longLimit(value *yamlnode.Node) (*limitBuilder, bool) {
	l := &limitBuilder{at: offsetsAt(value.Offset)}
	if !apply(c, limitWords, aLimit, value, l) {
		return nil, false
	}
	if !has(value, "max") {
		return nil, c.fail(value.Offset, "add max: 10, or max: unlimited", "the limit has no max")
	}
	if atOnce := l.form.atOnce || l.form.hasHold; !l.hasWindow && !l.unlimited && !atOnce {
		return nil, c.fail(value.Offset, "add window: minute, or a length such as window: 30m", "the limit has no window")
	}
	return l, true
}

// scalar passes the text of a value and its offset to set.
func (c *checker) scalar(key, value *yamlnode.Node, set func(at int, word string) *fault) bool {
	if value.Kind != yamlnode.Scalar || value.Null() {
		return c.fail(value.Offset, "write a single word", "%s: is %s", key.Text, describeKind(value))
	}
	return c.accept(set(value.At(c.doc, 0), value.Text))
}

func (c *checker) setKeys(l *limitBuilder, key, value *yamlnode.Node) bool {
	addKey := text((*limitBuilder).addKey)
	if value.Kind != yamlnode.List {
		return addKey(c, l, key, value)
	}
	ok := true
	for item := range value.Items() {
		ok = addKey(c, l, key, item) && ok
	}
	return ok
}

// isText rejects numbers and booleans, because other programs would not read them as text.
func (c *checker) isText(key, value *yamlnode.Node) bool {
	switch value.Type() {
	case "integer", "number", "boolean":
		return c.fail(value.Offset, "put it in quotes if it is meant as text", "%s: %s is %s, not text", key.Text, clip(value.Text), describeKind(value))
	}
	return true
}

// validate returns the fault that weir's own check finds in a limit outside a policy.
func (d *limitBuilder) validate() *fault {
	l := d.limit
	l.Name = onlyLimitName
	_, err := weir.Policy{Name: "policy", Limits: []weir.Limit{l}}.Compile()
	if e, wrong := errors.AsType[*weir.PolicyError](err); wrong { // Compile returns no other
		return d.faultOf(e)
	}
	return nil
}

// faultOf returns an error of weir's own check in the words of the file.
func (d *limitBuilder) faultOf(e *weir.PolicyError) *fault {
	switch e.Field {
	case "Max":
		return faultf(d.at.max, "use 0 to "+formatNumber(weir.MaxUnits)+", or unlimited", "the count is above the largest")
	case "Window":
		return faultOfLength(d.at.window, "window", d.limit.Window)
	case "MinInterval":
		if d.limit.Kind == weir.Concurrency {
			return faultf(d.at.apart, "use at most "+FormatDuration(d.limit.MaxHold)+" apart, or a longer hold", "the time apart is longer than the hold")
		}
		return faultf(d.at.apart, "use at most "+FormatDuration(d.limit.Window)+" apart, or a longer window", "the time apart is longer than the window")
	case "Burst":
		return d.faultOfBurst()
	case "Zone":
		return faultf(d.at.zone, "install the tzdata of the system, or import time/tzdata in the program", "this machine has no data of time zone %s", clip(d.limit.Zone))
	case "Kind":
		return faultf(d.at.kind, "write denied: free", "denied: counted counts denied attempts, and those hold nothing of a concurrency limit")
	}
	problem, next, _ := strings.Cut(e.Problem, "; ")
	return faultf(d.at.name, next, "%s", problem)
}

// faultOfBurst returns the fault of a bucket that fills too slowly, or whose rate is not
// exact in engines with floating point.
func (d *limitBuilder) faultOfBurst() *fault {
	rate := formatNumber(d.limit.Max) + " per " + formatWindow(d.limit.Window)
	if most := d.limit.MaxBurst(); most > 0 {
		return faultf(d.at.burst, "use at most burst "+formatNumber(most)+", or a rounder rate", "a bucket of %s at %s cannot be counted exactly, or fills in more than 400 days", formatNumber(d.limit.Burst), rate)
	}
	return faultf(d.at.burst, "use a rounder rate or a shorter window", "a bucket at %s cannot be counted exactly, or fills in more than 400 days", rate)
}
