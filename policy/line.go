package policy

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir"
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
)

// fromFirstHit are the words behind fixed for windows that begin with their first unit.
var fromFirstHit = []string{"from", "the", "first", "hit"}

// ParseLimit reads one limit line, such as "10 messages per day per phone". The
// limit has no name and no cells; unit is the word behind the count, or "". The
// error is an *Error whose line is 1. A weir.Limit has no blocks, so a line with one
// is refused here: files have them.
func ParseLimit(line string) (l weir.Limit, unit string, err error) {
	d, err := parseLimit(line)
	if err == nil && d.block > 0 {
		err = lineError(line, faultf(d.at.block, "leave it out, or put the line in a policy file", "a limit on its own does not block"))
	}
	if err != nil {
		return weir.Limit{}, "", err
	}
	return d.limit, d.unit, nil
}

// parseLimit reads and checks a limit line that is in no file.
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

// lineError is a fault of a line that is in no file.
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

// parseLine reads a limit line; the places of the draft are offsets in it.
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

// nextIs reports whether that word stands behind the next token.
func (p *lineParser) nextIs(word string) bool {
	behind := *p
	behind.next()
	return behind.token.text == word
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

func (p *lineParser) count() *fault {
	t := p.next()
	if t.text == "" {
		return faultf(t.at, "write one such as 10 per minute per user", "a limit is missing")
	}
	if p.token.text == "," && p.token.at == t.at+len(t.text) && strings.Trim(t.text, "0123456789") == "" {
		return faultf(p.token.at, "group digits with _, as in 1_000", "a comma within a number")
	}
	return p.d.setMax(t.at, t.text)
}

func (p *lineParser) unit() *fault {
	switch p.token.text {
	case "", ",", wordPer:
		return nil
	}
	if t := p.token; looksLikeWindow(t.text) {
		return faultf(t.at, "write per "+strings.TrimSuffix(t.text, "s"), "%s without per before it", clip(t.text))
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
	return p.d.setWindow(t.at, t.text)
}

// before says which word something is missing before, for the end of a sentence.
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
		*p = comma // the first of what is apart, or of the block
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
		*p = comma // the first of the block
		return nil
	}
	if t.text == "" {
		return faultf(t.at, "write one such as 3s apart, or remove the comma", "the time apart is missing")
	}
	if t.text == wordBlock {
		return faultf(t.at, "write then block", "then is missing before block")
	}
	if t.text == wordFixed {
		return faultf(t.at, "say it once", "fixed is there already")
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
		return faultf(t.at, "write then block 1h", "block is missing behind then")
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
	next := "a limit is COUNT [unit] per WINDOW {per KEY} [, fixed [from the first hit]] [, DURATION apart] [, then block DURATION]"
	if t.text == wordFixed {
		next = "write a comma before fixed"
	} else if p.token.text == "," && p.nextIs(wordFixed) {
		next = "write fixed before what is apart and before the block"
	} else if p.d.block > 0 && t.text == "," {
		next = "end the line with the block; what is apart stands before it"
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
