package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/internal/shorten"
)

// The words of the grammar
//
//	COUNT [unit] per WINDOW {per KEY} {, CLAUSE} [, then block DURATION]
//	COUNT [unit] at once {per KEY}, for at most DURATION {, CLAUSE} [, then block DURATION]
//
// The count may be unlimited, and then the window may be missing. A clause is one of
//
//	DURATION apart
//	fixed [from the first hit]
//	burst N
//	in ZONE
//	from DAY
//
// Each stands at most once, in any order. The comma between fixed and in or from may be
// left out.
const (
	wordPer       = "per"
	wordApart     = "apart"
	wordUnlimited = "unlimited"
	wordThen      = "then"
	wordBlock     = "block"
	wordFixed     = "fixed"
	wordBurst     = "burst"
	wordIn        = "in"
	wordFrom      = "from"
)

var (
	// theFirstHit are the words after fixed from for windows that begin with their first
	// unit.
	theFirstHit = []string{"the", "first", "hit"}

	atOnce    = []string{"at", "once"}
	forAtMost = []string{"for", "at", "most"}
)

// ParseLimit reads one limit line of a policy file, such as "10 messages per day per phone". The
// limit is the same as that of the constructor for its kind, such as [weir.PerDay] or
// [weir.Calendar]. It has no name ([weir.Limit.Named]), so a policy may hold several.
//
// unit is the word after the count, or "". The error is an *[Error] with Line 1. Parts that a
// weir.Limit lacks, such as warn, are errors; package enforce applies those of a file.
func ParseLimit(line string) (l weir.Limit, unit string, err error) {
	var d *limitBuilder
	f := catch(func() { d = parseAlone(line) })
	if f != nil {
		if part, misplaced := partsOfPolicies[f.part]; misplaced {
			f.problem, f.next = part.inGo(clip(f.part))
		}
		return weir.Limit{}, "", lineError(line, f)
	}
	return d.asConstructed(), d.unit, nil
}

// onlyInFile is the next step for a part of a policy file that a weir.Limit lacks.
const onlyInFile = "leave it out, " +
	"or put the line in a policy file and apply it with package enforce"

// parseAlone reads and checks a limit line that is not in a file.
func parseAlone(line string) *limitBuilder {
	d := parseLine(line, func(i int) int { return i })
	d.complete()
	d.validate()
	return d
}

// asConstructed returns the limit in the form of the constructors. Files write hours and days
// in UTC as multiples of their length, which are the same windows, and a length beside a Period.
func (d *limitBuilder) asConstructed() weir.Limit {
	l := d.limit
	if l.Kind == weir.KindFixed {
		l.Period = d.period
	}
	if l.Period != weir.NoPeriod {
		l.Window = 0
	}
	return l
}

// lineError returns the error of a line that is not in a file.
func lineError(line string, f *fault) *Error {
	return &Error{
		Line:    1,
		Column:  1 + utf8.RuneCountInString(line[:f.at]),
		Problem: f.problem,
		Next:    f.next,
		Source:  line,
	}
}

// token is a word of a limit line, or a comma.
type token struct {
	text string // "" at the end of the line
	at   int    // in the document
}

// lineParser reads a limit line word by word.
type lineParser struct {
	text       string
	inDocument func(i int) int // the offset in the document of byte i of the text
	token      token           // the next one
	begin, end int             // token's place in the text
	d          limitBuilder
}

// parseLine reads a limit line. inDocument returns the offset in the document of a byte. The
// fault of a line with other words suggests the line with those of the grammar.
func parseLine(text string, inDocument func(i int) int) (d *limitBuilder) {
	f := catch(func() { d = parseWords(text, inDocument) })
	if f == nil {
		return d
	}
	if meant := respell(text); meant != "" {
		f.next = "write " + meant
	}
	panic(f)
}

// parseWords reads a limit line in the words of the grammar.
func parseWords(text string, inDocument func(i int) int) *limitBuilder {
	p := lineParser{text: text, inDocument: inDocument}
	p.next()
	p.readCount()
	p.readUnit()
	p.readWindow()
	p.readKeys()
	p.readClauses()
	p.readBlock()
	p.expectEnd()
	return &p.d
}

// next moves to the next token and returns the one before.
func (p *lineParser) next() (before token) {
	before = p.token
	for p.begin = p.end; p.begin < len(p.text) && isSpace(p.text[p.begin]); {
		p.begin++
	}
	for p.end = p.begin; p.end < len(p.text) && !isSpace(p.text[p.end]) && p.text[p.end] != ','; {
		p.end++
	}
	if p.end == p.begin && p.begin < len(p.text) {
		p.end++ // a comma
	}
	p.token = token{p.text[p.begin:p.end], p.inDocument(p.begin)}
	return before
}

// peekSecond returns the token after the next.
func (p *lineParser) peekSecond() token {
	after := *p
	after.next()
	return after.token
}

// follows reports whether those two words are next.
func (p *lineParser) follows(words []string) bool {
	return p.token.text == words[0] && p.peekSecond().text == words[1]
}

// commaThen reports whether a comma and that word follow.
func (p *lineParser) commaThen(word string) bool {
	return p.token.text == "," && p.peekSecond().text == word
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

func (p *lineParser) readCount() {
	end := p.end
	t := p.next()
	switch {
	case t.text == "":
		fail(t.at, "write one such as 10 per minute per user", "a limit is missing")
	case t.text == wordBurst:
		fail(t.at, "write the rate first, as in 10 per second, burst 20",
			"the rate is missing before burst")
	case p.token.text == "," && p.begin == end && strings.Trim(t.text, "0123456789") == "":
		fail(p.token.at, "group digits with _, as in 1_000", "a comma in a number")
	}
	p.d.at = offsetsAt(t.at)
	p.d.setMax(t.at, t.text)
}

func (p *lineParser) readUnit() {
	t := p.token
	switch {
	case t.text == "" || t.text == "," || t.text == wordPer || p.follows(atOnce):
		return
	case looksLikeWindow(t.text):
		fail(t.at, "write per "+strings.TrimSuffix(t.text, "s"),
			"per is missing before %s", clip(t.text))
	case strings.EqualFold(t.text, wordPer):
		fail(t.at, "write per", "%s is not in small letters", clip(t.text))
	}
	p.next()
	p.d.setUnit(t.at, t.text)
}

// atOnceWords are other words for a concurrency limit.
var atOnceWords = []string{
	"concurrent", "concurrently", "parallel", "simultaneous", "simultaneously",
	"in-flight", "inflight", "flight",
}

func (p *lineParser) readWindow() {
	if p.follows(atOnce) {
		p.d.at.kind, p.d.kinds[weir.KindConcurrency] = p.next().at, true
		p.next()
		return
	}
	per := p.token.text == wordPer
	perWindow := per && looksLikeWindow(p.peekSecond().text)
	meantAtOnce := slices.Contains(atOnceWords, p.d.unit) ||
		slices.Contains(atOnceWords, p.token.text)
	switch {
	case !perWindow && meantAtOnce:
		fail(p.token.at, "write 20 at once per user, for at most 30s",
			"the window is missing%s", p.before())
	case !perWindow && p.d.unlimited:
		return // the first of the keys follows, or none
	case !per:
		fail(p.token.at, "write per and a window, such as per minute, per day or per 30m",
			"the window is missing%s", p.before())
	}
	p.next()
	t := p.next()
	if t.text == "" || t.text == "," {
		fail(t.at, useWindow, "the window is missing%s", p.before())
	}
	if window := p.misplacedWindow(t.text); window != "" {
		fail(t.at, "write the window before the key, as in per "+window+" per "+t.text,
			"%s is not a window", clip(t.text))
	}
	p.d.setWindow(t.at, t.text)
}

// misplacedWindow returns the window of a limit that has a key in the place of the
// window: the window that follows, or minute if nothing follows. It returns "" if word is
// a window or probably a mistyped one.
func (p *lineParser) misplacedWindow(word string) string {
	if looksLikeWindow(word) { // so most lines need no pattern
		return ""
	}
	after := *p
	switch {
	case !meansKey(word):
		return ""
	case p.token.text == "" || p.token.text == ",":
		return "minute"
	case after.next().text == wordPer && looksLikeWindow(after.token.text):
		return strings.TrimSuffix(after.token.text, "s")
	}
	return ""
}

// meansKey reports whether a word in the place of a window is a key and no mistyped window.
func meansKey(word string) bool {
	if !weir.ValidName(word) || len(word) == 1 || strings.ContainsAny(word, "0123456789") {
		return false
	}
	names := mapped(windows, func(w namedLength) string { return w.name })
	return nextWindow(word) == useWindow && nearest.Name(word, names) == ""
}

// before returns the end of a sentence that names the word after a missing part.
func (p *lineParser) before() string {
	if t := p.token.text; t != "" && t != "," {
		return " before " + clip(t)
	}
	return ""
}

func (p *lineParser) readKeys() {
	for p.token.text == wordPer {
		p.next()
		p.readValue(p.d.addKey, "name what to count by, such as user or ip", "the key is missing")
	}
}

// readValue passes the next word to set, and fails if there is none.
func (p *lineParser) readValue(set func(at int, word string), next, missing string) {
	t := p.next()
	if t.text == "" || t.text == "," {
		fail(t.at, next, "%s", missing)
	}
	set(t.at, t.text)
}

// rejectSecondLimit fails if t, the word before the next, begins another limit: a number, a unit or
// none, and per.
func (p *lineParser) rejectSecondLimit(t token) {
	_, problem := parseNumber(t.text)
	if problem == "" && (p.token.text == wordPer || p.peekSecond().text == wordPer) {
		words := append([]string{t.text}, strings.Fields(p.text[p.begin:])...)
		another := shorten.Text(strings.Join(words, " "))
		fail(t.at, "write limits: in place of limit:, and below it a line with a name for each, "+
			"such as another: "+another, "a second limit in one line")
	}
}

// expect reads words of the grammar, and fails at the first that is missing.
func (p *lineParser) expect(words []string, next string) {
	for _, word := range words {
		if t := p.next(); t.text != word {
			fail(t.at, next, "%s is missing", word)
		}
	}
}

// grammar is the next step for words that resemble nothing in particular.
const grammar = "a limit is COUNT [unit] per WINDOW {per KEY} [, DURATION apart] " +
	"[, fixed [from the first hit]] [, burst N] [, in ZONE] [, from DAY] [, then block DURATION]"

// expectEnd fails if there are words left.
func (p *lineParser) expectEnd() {
	t := p.token
	if t.text == "" {
		return
	}
	if p.follows(atOnce) && p.d.hasWindow {
		failAtOncePerWindow(t.at, formatWindow(p.d.limit.Window))
	}
	if t.text == "and" {
		and := *p
		and.next()
		and.rejectSecondLimit(and.next())
	}
	fail(t.at, p.nextAtEnd(), "%s is not expected here", clip(t.text))
}

// nextAtEnd returns the next step for a word behind the end of the limit.
func (p *lineParser) nextAtEnd() string {
	word := p.token.text
	_, isLength := parseLength(word)
	switch {
	case p.beginsClause(word):
		return "write a comma before " + word
	case p.commaThen(wordFixed):
		return "write fixed before the block"
	case p.d.limit.Block > 0 && word == ",":
		return "end the line with the block; the minimum interval stands before it"
	case p.d.limit.Block == 0 && word == wordThen:
		return "write a comma before then block"
	case isLength && p.d.limit.MinInterval == 0:
		return "write a comma before " + word + " apart"
	case slices.Contains([]string{"by", "for", "each", "and"}, word):
		return "write per before each key"
	case p.behindKey() && weir.ValidName(word):
		key := p.d.limit.By[len(p.d.limit.By)-1]
		return fmt.Sprintf("write per %s per %s for two keys, or per %[1]s-%[2]s for one",
			key, word)
	}
	return grammar
}

// beginsClause reports whether a clause of this kind of limit begins with a word.
func (p *lineParser) beginsClause(word string) bool {
	if word == forAtMost[0] {
		return p.d.kinds[weir.KindConcurrency]
	}
	return clauseReaders[word] != nil
}

// behindKey reports whether the word before the next one is the last key.
func (p *lineParser) behindKey() bool {
	keys := p.d.limit.By
	return len(keys) > 0 &&
		strings.HasSuffix(strings.TrimSpace(p.text[:p.begin]), keys[len(keys)-1])
}

// clauseReaders read the clauses of a line, by their first words. A clause with another first word
// is DURATION apart.
var clauseReaders = map[string]func(*lineParser){
	wordFixed:    (*lineParser).readFixed,
	wordBurst:    (*lineParser).readBurst,
	wordIn:       (*lineParser).readZone,
	wordFrom:     (*lineParser).readFrom,
	forAtMost[0]: (*lineParser).readHold,
}

// readClauses reads the clauses, in any order.
func (p *lineParser) readClauses() {
	for p.token.text == "," && !p.commaThen(wordThen) {
		comma, t := p.next(), p.token
		read, lower := clauseReaders[t.text], strings.ToLower(t.text)
		switch {
		case read != nil:
			read(p)
		case clauseReaders[lower] != nil:
			fail(t.at, "write "+lower, "%s is not in small letters", clip(t.text))
		default:
			p.readApart(comma)
		}
	}
}

// once fails if a clause is there already. t is its first word.
func once(t token, there bool) {
	if there {
		fail(t.at, "write it once", "%s is there already", t.text)
	}
}

func (p *lineParser) readFixed() {
	t := p.next()
	once(t, p.d.kinds[weir.KindFixed])
	p.d.kinds[weir.KindFixed], p.d.at.kind = true, t.at
	for {
		switch p.token.text {
		case wordFrom:
			p.readFrom()
		case wordIn:
			p.readZone()
		default:
			return
		}
	}
}

func (p *lineParser) readBurst() {
	once(p.next(), p.d.limit.Burst > 0)
	p.readValue(p.d.setBurst, "write one such as burst 20: the units that are there after a pause",
		"the number of the burst is missing")
}

func (p *lineParser) readZone() {
	once(p.next(), p.d.limit.Zone != "")
	p.readValue(p.d.setZone, useZone, "the time zone is missing")
}

func (p *lineParser) readFrom() {
	once(p.next(), p.d.anchor != weir.NoPeriod || p.d.kinds[weir.KindFixedFromFirst])
	the := p.token.text == theFirstHit[0]
	if !the && p.token.text == theFirstHit[1] || the && p.peekSecond().text == theFirstHit[1] {
		p.readFirstHit()
		return
	}
	if the {
		p.next()
	}
	day := p.token
	if the && day.text == "last" {
		fail(day.at, "write from the 31st: a day beyond the month's end is its last day",
			"%s is not a day", clip(day.text))
	}
	p.readValue(p.d.setAnchor, "write fixed from the first hit, from the 14th of a month, "+
		"or from sunday of a week", "the beginning of the windows is missing")
	if !the && p.d.anchor == weir.Month {
		fail(day.at, "write from the "+answer.Ordinal(p.d.limit.Anchor), "the is missing before %s",
			clip(day.text))
	} else if the && p.d.anchor == weir.Week {
		fail(day.at, "write from "+day.text, "a day of the week has no the")
	}
}

func (p *lineParser) readFirstHit() {
	at := p.token.at
	p.expect(theFirstHit,
		"write fixed from the first hit, or fixed alone for windows of the calendar")
	if !p.d.kinds[weir.KindFixed] {
		fail(at, "write fixed from the first hit", "fixed is missing before from")
	}
	p.d.kinds[weir.KindFixedFromFirst] = true
}

func (p *lineParser) readHold() {
	once(p.next(), p.d.hasHold)
	p.expect(forAtMost[1:], "write for at most 30s")
	p.readValue(p.d.setHold, "write one such as for at most 30s",
		"the longest time of a hold is missing")
}

// partOfPolicy is a part of a policy that is often written behind a limit.
type partOfPolicy struct {
	line  string // in a file, where it has a line of its own
	field string // in Go; "" = package weir has none
}

var partsOfPolicies = map[string]partOfPolicy{
	"warn":    {line: "warn: 80%"},
	"shadow":  {line: "shadow: true"},
	"partial": {"batch: partial", "Policy.Mode to weir.Partial"},
	"counted": {"denied: counted", "Policy.Mode to weir.CountDenied"},
	"cells":   {"cells: 60", "Limit.Cells"},
	"cost":    {"costs: {limit: 2}", "Limit.Cost"},
	"costs":   {"costs: {limit: 2}", "Limit.Cost"},
}

// inGo returns the problem of the part in a line outside of a file, and the next step.
func (p partOfPolicy) inGo(word string) (problem, next string) {
	if p.field == "" {
		return word + " is no part of a weir.Limit", onlyInFile
	}
	return word + " is no part of a limit line", "leave it out, and set " + p.field
}

// readApart reads the clause DURATION apart, or fails because it is none of the clauses.
func (p *lineParser) readApart(comma token) {
	t := p.next()
	rejectPartOfPolicy(t)
	p.rejectSecondLimit(t)
	switch {
	case t.text == "":
		fail(t.at, "write one such as 3s apart, or remove the comma", "the time apart is missing")
	case t.text == wordBlock:
		fail(t.at, "write then block", "then is missing before block")
	case t.text == wordPer:
		fail(comma.at, "remove the comma", "a comma before per")
	case t.text == forAtMost[1] && p.d.kinds[weir.KindConcurrency]:
		fail(t.at, "write for at most 30s", "for is missing before at")
	case p.follows(atOnce) && p.d.hasWindow:
		failAtOncePerWindow(t.at, formatWindow(p.d.limit.Window))
	}
	if _, ok := parseLength(t.text); ok && p.d.hasApart {
		fail(t.at, "write one", "a time apart is there already")
	}
	if f := catch(func() { p.d.setApart(t.at, t.text) }); f != nil {
		f.next = p.nextApart(t, f.next)
		panic(f)
	}
	if t := p.next(); t.text != wordApart {
		fail(t.at, "write "+duration.Format(p.d.limit.MinInterval)+" apart", "apart is missing")
	}
}

// rejectPartOfPolicy fails for a part of a policy in the place of a clause.
func rejectPartOfPolicy(t token) {
	part, misplaced := partsOfPolicies[t.text]
	if !misplaced {
		return
	}
	next := "write " + part.line + " on a line of its own, below limit:"
	f := faultf(t.at, next, "%s belongs to the policy, not to its limit", clip(t.text))
	f.part = t.text
	panic(f)
}

// nextApart returns the next step for a word that is no time apart, or otherwise.
func (p *lineParser) nextApart(t token, otherwise string) string {
	_, problem := parseNumber(t.text)
	length := respellLengths(t.text + " " + p.token.text)
	_, isLength := parseLength(length)
	mayBeKey := len(p.d.limit.By) > 0 && p.token.text != wordApart && weir.ValidName(t.text)
	switch {
	case t.text == "and" && p.token.text == wordBlock:
		return "write then block"
	case problem == "" && isLength:
		return "write " + length + " apart"
	case problem == "":
		return "write the number and its unit in one word, such as 3s apart"
	case mayBeKey:
		return otherwise + "; of another key, write per " + t.text + " in place of the comma"
	}
	return otherwise
}

func (p *lineParser) readBlock() {
	if !p.commaThen(wordThen) {
		return
	}
	p.next()
	p.next()
	p.expect([]string{wordBlock}, "write then block 1h")
	p.readValue(p.d.setBlock, "write one such as then block 1h",
		"the length of the block is missing")
}
