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
//	COUNT [unit] per WINDOW {per KEY} [, fixed [from the first hit]] [, DURATION apart] [, then block DURATION]
//	unlimited [unit] [per WINDOW] {per KEY} [, fixed [from the first hit]] [, DURATION apart] [, then block DURATION]
const (
	wordPer       = "per"
	wordApart     = "apart"
	wordUnlimited = "unlimited"
	wordThen      = "then"
	wordBlock     = "block"
	wordFixed     = "fixed"
	wordBurst     = "burst" // of other rate limiters
)

// fromFirstHit are the words after fixed for windows that begin with their first unit.
var fromFirstHit = []string{"from", "the", "first", "hit"}

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
	d, f := parseLine(line)
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
	source := printable(strings.ToValidUTF8(line, string(utf8.RuneError)))
	return &Error{Line: 1, Column: 1 + utf8.RuneCountInString(line[:f.at]), Problem: f.problem, Next: f.next, Source: source}
}

// token is a word of a limit line, or a comma.
type token struct {
	text string // "" at the end of the line
	at   int
}

// lineParser reads a limit line word by word.
type lineParser struct {
	text  string
	token token // the next one
	d     limitBuilder
}

// parseLine reads a limit line. The offsets of the result are relative to the line.
func parseLine(text string) (*limitBuilder, *fault) {
	p := lineParser{text: text}
	p.next()
	for _, part := range []func() *fault{p.count, p.unit, p.window, p.keys, p.fixed, p.apart, p.block, p.end} {
		if f := part(); f != nil {
			return nil, f
		}
	}
	p.d.complete()
	return &p.d, nil
}

// next moves to the next token and returns the one before.
func (p *lineParser) next() (before token) {
	before = p.token
	i := before.at + len(before.text)
	for i < len(p.text) && isSpace(p.text[i]) {
		i++
	}
	end := i
	for end < len(p.text) && !isSpace(p.text[end]) && p.text[end] != ',' {
		end++
	}
	if end == i && i < len(p.text) {
		end++ // a comma
	}
	p.token = token{p.text[i:end], i}
	return before
}

// nextIs reports whether that word follows the next token.
func (p *lineParser) nextIs(word string) bool {
	after := *p
	after.next()
	return after.token.text == word
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

func (p *lineParser) count() *fault {
	t := p.next()
	if t.text == "" {
		return faultf(t.at, "write one such as 10 per minute per user", "a limit is missing")
	}
	if t.text == wordBurst {
		return faultf(t.at, useBurst, "burst is not a word of a limit")
	}
	if p.token.text == "," && p.token.at == t.at+len(t.text) && strings.Trim(t.text, "0123456789") == "" {
		return faultf(p.token.at, "group digits with _, as in 1_000", "a comma in a number")
	}
	return p.d.setMax(t.at, t.text)
}

func (p *lineParser) unit() *fault {
	switch p.token.text {
	case "", ",", wordPer:
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

func (p *lineParser) window() *fault {
	p.d.at.window = p.d.at.max
	if p.d.unlimited && p.token.text != wordPer {
		return nil
	}
	if p.token.text != wordPer {
		return faultf(p.token.at, "write per and a window, such as per minute, per day or per 30m", "the window is missing%s", p.before())
	}
	per := *p
	p.next()
	t := p.next()
	switch {
	case p.d.unlimited && !looksLikeWindow(t.text):
		*p = per // the first of the keys
		return nil
	case t.text == "" || t.text == ",":
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
		t := p.next()
		if t.text == "" || t.text == "," {
			return faultf(t.at, "name what to count by, such as user or ip", "the key is missing")
		}
		if f := p.d.addKey(t.at, t.text); f != nil {
			return f
		}
	}
	return nil
}

func (p *lineParser) fixed() *fault {
	p.d.at.kind = p.d.at.max
	if p.token.text != "," {
		return nil
	}
	comma := *p
	p.next()
	t := p.next()
	if t.text != wordFixed {
		if strings.EqualFold(t.text, wordFixed) {
			return faultf(t.at, "write fixed", "%s is not in small letters", clip(t.text))
		}
		*p = comma // it begins the spacing or the block
		return nil
	}
	p.d.limit.Kind, p.d.at.kind = weir.Calendar, t.at
	if p.token.text != fromFirstHit[0] {
		return nil
	}
	for _, word := range fromFirstHit {
		if t := p.next(); t.text != word {
			return faultf(t.at, "write fixed from the first hit, or fixed alone for windows of the calendar", "%s is missing", word)
		}
	}
	p.d.limit.Kind = weir.FirstHit
	return nil
}

func (p *lineParser) apart() *fault {
	p.d.at.apart = p.d.at.max
	if p.token.text != "," {
		return nil
	}
	comma := *p
	p.next()
	t := p.next()
	if t.text == wordThen {
		*p = comma // it begins the block
		return nil
	}
	if t.text == "" {
		return faultf(t.at, "write one such as 3s apart, or remove the comma", "the time apart is missing")
	}
	switch t.text {
	case wordBlock:
		return faultf(t.at, "write then block", "then is missing before block")
	case wordFixed:
		return faultf(t.at, "write it once", "fixed is there already")
	case wordBurst:
		return faultf(t.at, useBurst, "burst is not a word of a limit")
	case wordPer:
		return faultf(comma.token.at, "remove the comma, as in "+p.keyExample(), "a comma before per")
	}
	if f := p.d.setApart(t.at, t.text); f != nil {
		switch {
		case t.text == "and" && p.token.text == wordBlock:
			f.next = "write then block"
		case len(p.d.limit.By) > 0 && p.token.text != wordApart && weir.ValidName(t.text):
			f.next += "; of another key, write per " + t.text + " in place of the comma"
		}
		return f
	}
	if t := p.next(); t.text != wordApart {
		return faultf(t.at, "write "+FormatDuration(p.d.limit.MinInterval)+" apart", "apart is missing")
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

func (p *lineParser) block() *fault {
	p.d.at.block = p.d.at.max
	comma := *p
	if p.token.text != "," {
		return nil
	}
	p.next()
	if p.next().text != wordThen {
		*p = comma
		return nil
	}
	if t := p.next(); t.text != wordBlock {
		return faultf(t.at, "write then block 1h", "block is missing after then")
	}
	t := p.next()
	if t.text == "" {
		return faultf(t.at, "write one such as then block 1h", "the length of the block is missing")
	}
	return p.d.setBlock(t.at, t.text)
}

func (p *lineParser) end() *fault {
	t := p.token
	if t.text == "" {
		return nil
	}
	if t.text == wordBurst || t.text == "," && p.nextIs(wordBurst) {
		return faultf(t.at, useBurst, "burst is not a word of a limit")
	}
	next := "a limit is COUNT [unit] per WINDOW {per KEY} [, fixed [from the first hit]] [, DURATION apart] [, then block DURATION]"
	if t.text == wordFixed {
		next = "write a comma before fixed"
	} else if p.token.text == "," && p.nextIs(wordFixed) {
		next = "write fixed before the spacing and before the block"
	} else if p.d.block > 0 && t.text == "," {
		next = "end the line with the block; the spacing stands before it"
	} else if t.text == wordThen && p.d.block == 0 {
		next = "write a comma before then block"
	}
	if _, ok := parseLength(t.text); ok && p.d.limit.MinInterval == 0 {
		next = "write a comma before " + t.text + " apart"
	} else if slices.Contains([]string{"and", "by", "for", "each"}, t.text) {
		next = "write per before each key"
	}
	return faultf(t.at, next, "%s is not expected here", clip(t.text))
}
