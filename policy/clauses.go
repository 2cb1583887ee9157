package policy

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// clauses reads the parts of a line between its keys and its block, in any order.
func (p *lineParser) clauses() *fault {
	for p.token.text == "," && !p.commaThen(wordThen) {
		comma := p.next()
		if f := p.clause(comma); f != nil {
			return f
		}
	}
	return nil
}

// clause reads the part after a comma.
func (p *lineParser) clause(comma token) *fault {
	switch t := p.token; t.text {
	case wordFixed:
		return p.fixed()
	case wordBurst:
		return p.burst()
	case wordIn:
		return p.zone()
	case wordFrom:
		return p.from()
	case forAtMost[0]:
		return p.hold()
	default:
		for _, word := range []string{wordFixed, wordBurst, wordIn, wordFrom, forAtMost[0]} {
			if strings.EqualFold(t.text, word) {
				return faultf(t.at, "write "+word, "%s is not in small letters", clip(t.text))
			}
		}
		return p.apart(comma)
	}
}

// twice returns the fault of a part that is there already.
func twice(t token) *fault { return faultf(t.at, "write it once", "%s is there already", t.text) }

func (p *lineParser) fixed() *fault {
	t := p.next()
	if p.d.form.fixed {
		return twice(t)
	}
	p.d.form.fixed, p.d.at.kind = true, t.at
	for {
		var f *fault
		switch p.token.text {
		case wordFrom:
			f = p.from()
		case wordIn:
			f = p.zone()
		default:
			return nil
		}
		if f != nil {
			return f
		}
	}
}

func (p *lineParser) burst() *fault {
	t := p.next()
	if p.d.form.hasBurst {
		return twice(t)
	}
	return p.value(p.d.setBurst, "write one such as burst 20: the units that are there after a pause", "the number of the burst is missing")
}

func (p *lineParser) zone() *fault {
	t := p.next()
	if p.d.limit.Zone != "" {
		return faultf(t.at, "write one", "a time zone is there already")
	}
	return p.value(p.d.setZone, useZone, "the time zone is missing")
}

func (p *lineParser) from() *fault {
	t := p.next()
	if p.d.form.anchor != weir.NoPeriod || p.d.form.firstHit {
		return twice(t)
	}
	the := p.token.text == theFirstHit[0]
	if !the && p.token.text == theFirstHit[1] || the && p.second().text == theFirstHit[1] {
		return p.firstHit()
	}
	if the {
		p.next()
	}
	day := p.next()
	if day.text == "" || day.text == "," {
		return faultf(day.at, "write fixed from the first hit, from the 14th of a month, or from sunday of a week", "the beginning of the windows is missing")
	}
	if the && day.text == "last" {
		return faultf(day.at, "write from the 31st: a day beyond the month's end is its last day", "%s is not a day", clip(day.text))
	}
	if f := p.d.setAnchor(day.at, day.text); f != nil {
		return f
	}
	if !the && p.d.form.anchor == weir.Month {
		return faultf(day.at, "write from the "+answer.Ordinal(p.d.limit.Anchor), "the is missing before %s", clip(day.text))
	} else if the && p.d.form.anchor == weir.Week {
		return faultf(day.at, "write from "+day.text, "a day of the week has no the")
	}
	return nil
}

func (p *lineParser) firstHit() *fault {
	at := p.token.at
	if f := p.expect(theFirstHit, "write fixed from the first hit, or fixed alone for windows of the calendar"); f != nil {
		return f
	}
	if !p.d.form.fixed {
		return faultf(at, "write fixed from the first hit", "fixed is missing before from")
	}
	p.d.form.firstHit = true
	return nil
}

func (p *lineParser) hold() *fault {
	t := p.next()
	if p.d.form.hasHold {
		return twice(t)
	}
	if f := p.expect(forAtMost[1:], "write for at most 30s"); f != nil {
		return f
	}
	return p.value(p.d.setHold, "write one such as for at most 30s", "the longest time of a hold is missing")
}

func (p *lineParser) apart(comma token) *fault {
	t := p.next()
	switch t.text {
	case "":
		return faultf(t.at, "write one such as 3s apart, or remove the comma", "the time apart is missing")
	case wordBlock:
		return faultf(t.at, "write then block", "then is missing before block")
	case wordPer:
		return faultf(comma.at, "remove the comma, as in "+p.keyExample(), "a comma before per")
	case forAtMost[1]:
		if p.d.form.atOnce {
			return faultf(t.at, "write for at most 30s", "for is missing before at")
		}
	}
	if p.follow(atOnce) && p.d.hasWindow {
		return atOncePerWindow(t.at, formatWindow(p.d.limit.Window))
	}
	if p.d.hasApart {
		if _, ok := parseLength(t.text); ok {
			return faultf(t.at, "write one", "a time apart is there already")
		}
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
	if !p.commaThen(wordThen) {
		return nil
	}
	p.next()
	p.next()
	if t := p.next(); t.text != wordBlock {
		return faultf(t.at, "write then block 1h", "block is missing after then")
	}
	t := p.next()
	if t.text == "" {
		return faultf(t.at, "write one such as then block 1h", "the length of the block is missing")
	}
	return p.d.setBlock(t.at, t.text)
}
