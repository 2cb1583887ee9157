package policy

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/nearest"
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

// ParseLimit reads one limit line, such as "10 messages per day per phone". The limit is
// named "limit", as that of a policy with a single limit, so that [weir.New] accepts a
// policy with it. unit is the word after the count, or "". The error is an *[Error] with
// Line 1. ParseLimit rejects a block, because a weir.Limit has none.
func ParseLimit(line string) (l weir.Limit, unit string, err error) {
	d, err := parseLimit(line)
	if err == nil && d.block > 0 {
		err = lineError(line, faultf(d.at.block, "leave it out, or put the line in a policy file", "a limit outside a policy file does not block"))
	}
	if err != nil {
		return weir.Limit{}, "", err
	}
	d.limit.Name = onlyLimitName
	return d.limit, d.unit, nil
}

// parseLimit reads and checks a limit line that is not in a file.
func parseLimit(line string) (*limitBuilder, error) {
	d, f := parseLine(line, func(i int) int { return i })
	if f == nil {
		f = d.complete()
	}
	if f == nil {
		f = d.validate()
	}
	if f != nil {
		return nil, lineError(line, f)
	}
	return d, nil
}

// lineError returns the error of a line that is not in a file.
func lineError(line string, f *fault) *Error {
	f.resolve()
	return &Error{Line: 1, Column: 1 + utf8.RuneCountInString(line[:f.at]), Problem: f.problem, Next: f.next, Source: line}
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
	begin, end int             // of token in the text
	d          limitBuilder
}

// parseLine reads a limit line. inDocument returns the offset in the document of a byte.
func parseLine(text string, inDocument func(i int) int) (*limitBuilder, *fault) {
	p := lineParser{text: text, inDocument: inDocument}
	p.next()
	for _, part := range []func() *fault{p.count, p.unit, p.window, p.keys, p.clauses, p.block, p.nothing} {
		if f := part(); f != nil {
			return nil, f
		}
	}
	return &p.d, nil
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

// second returns the token after the next.
func (p *lineParser) second() token {
	after := *p
	after.next()
	return after.token
}

// follow reports whether those two words are next.
func (p *lineParser) follow(words []string) bool {
	return p.token.text == words[0] && p.second().text == words[1]
}

// commaThen reports whether a comma and that word follow.
func (p *lineParser) commaThen(word string) bool {
	return p.token.text == "," && p.second().text == word
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

func (p *lineParser) count() *fault {
	end := p.end
	t := p.next()
	if t.text == "" {
		return faultf(t.at, "write one such as 10 per minute per user", "a limit is missing")
	}
	if t.text == wordBurst {
		return faultf(t.at, "write the rate first, as in 10 per second, burst 20", "the rate is missing before burst")
	}
	if p.token.text == "," && p.begin == end && strings.Trim(t.text, "0123456789") == "" {
		return faultf(p.token.at, "group digits with _, as in 1_000", "a comma in a number")
	}
	p.d.at = offsetsAt(t.at)
	return p.d.setMax(t.at, t.text)
}

func (p *lineParser) unit() *fault {
	switch p.token.text {
	case "", ",", wordPer:
		return nil
	}
	if p.follow(atOnce) {
		return nil
	}
	if t := p.token; looksLikeWindow(t.text) {
		return faultf(t.at, "write per "+strings.TrimSuffix(t.text, "s"), "per is missing before %s", clip(t.text))
	} else if strings.EqualFold(t.text, wordPer) {
		return faultf(t.at, "write per", "%s is not in small letters", clip(t.text))
	}
	t := p.next()
	return p.d.setUnit(t.at, t.text)
}

// atOnceWords are other words for a concurrency limit.
var atOnceWords = []string{"concurrent", "concurrently", "parallel", "simultaneous", "simultaneously", "in-flight", "inflight", "flight"}

func (p *lineParser) window() *fault {
	if p.follow(atOnce) {
		p.d.at.kind, p.d.form.atOnce = p.next().at, true
		p.next()
		return nil
	}
	if rate := p.token.text == wordPer && looksLikeWindow(p.second().text); !rate &&
		(slices.Contains(atOnceWords, p.d.unit) || slices.Contains(atOnceWords, p.token.text)) {
		return faultf(p.token.at, "write 20 at once per user, for at most 30s", "the window is missing%s", p.before())
	}
	if p.d.unlimited && p.token.text != wordPer {
		return nil
	}
	if p.token.text != wordPer {
		return faultf(p.token.at, "write per and a window, such as per minute, per day or per 30m", "the window is missing%s", p.before())
	}
	if p.d.unlimited && !looksLikeWindow(p.second().text) {
		return nil // the first of the keys follows
	}
	p.next()
	t := p.next()
	if t.text == "" || t.text == "," {
		return faultf(t.at, useWindow, "the window is missing%s", p.before())
	}
	f := p.d.setWindow(t.at, t.text)
	if f != nil && f.next == useWindow {
		if window := p.misplacedWindow(t.text); window != "" {
			f.next = "write the window before the key, as in per " + window + " per " + t.text
		}
	}
	return f
}

// misplacedWindow returns the window of a limit that has a key in the place of the
// window: the window that follows, or minute if nothing follows. It returns "" if word is
// probably a mistyped window.
func (p *lineParser) misplacedWindow(word string) string {
	key := weir.ValidName(word) && len(word) > 1 && !strings.ContainsAny(word, "0123456789") && nearest.Name(word, namesOfWindows()) == ""
	after := *p
	switch {
	case !key:
		return ""
	case p.token.text == "" || p.token.text == ",":
		return "minute"
	case after.next().text == wordPer && looksLikeWindow(after.token.text):
		return strings.TrimSuffix(after.token.text, "s")
	}
	return ""
}

// before returns the end of a sentence that names the word after a missing part.
func (p *lineParser) before() string {
	if t := p.token.text; t != "" && t != "," {
		return " before " + clip(t)
	}
	return ""
}

func (p *lineParser) keys() *fault {
	for p.token.text == wordPer {
		p.next()
		if f := p.value(p.d.addKey, "name what to count by, such as user or ip", "the key is missing"); f != nil {
			return f
		}
	}
	return nil
}

// value passes the next word to set. If there is none, it returns the fault of a missing one.
func (p *lineParser) value(set func(at int, word string) *fault, next, missing string) *fault {
	t := p.next()
	if t.text == "" || t.text == "," {
		return faultf(t.at, next, "%s", missing)
	}
	return set(t.at, t.text)
}

// expect reads words of the grammar, or returns the fault of the first that is missing.
func (p *lineParser) expect(words []string, next string) *fault {
	for _, word := range words {
		if t := p.next(); t.text != word {
			return faultf(t.at, next, "%s is missing", word)
		}
	}
	return nil
}

// keyExample returns a window and the key at the next token.
func (p *lineParser) keyExample() string {
	key := p.token.text
	if !weir.ValidName(key) {
		key = "user"
	}
	return "per " + formatWindow(p.d.limit.Window) + " per " + key
}

// nothing returns a fault if there are words left.
func (p *lineParser) nothing() *fault {
	t := p.token
	if t.text == "" {
		return nil
	}
	next := "a limit is COUNT [unit] per WINDOW {per KEY} [, DURATION apart] [, fixed [from the first hit]] [, burst N] [, in ZONE] [, from DAY] [, then block DURATION]"
	_, isLength := parseLength(t.text)
	switch {
	case p.follow(atOnce) && p.d.hasWindow:
		return atOncePerWindow(t.at, formatWindow(p.d.limit.Window))
	case t.text == wordFixed || t.text == wordBurst || t.text == wordIn || t.text == wordFrom:
		next = "write a comma before " + t.text
	case t.text == forAtMost[0] && p.d.form.atOnce:
		next = "write a comma before for at most"
	case p.commaThen(wordFixed):
		next = "write fixed before the block"
	case p.d.block > 0 && t.text == ",":
		next = "end the line with the block; the minimum interval stands before it"
	case p.d.block == 0 && t.text == wordThen:
		next = "write a comma before then block"
	case isLength && p.d.limit.MinInterval == 0:
		next = "write a comma before " + t.text + " apart"
	case slices.Contains([]string{"and", "by", "for", "each"}, t.text):
		next = "write per before each key"
	}
	return faultf(t.at, next, "%s is not expected here", clip(t.text))
}
