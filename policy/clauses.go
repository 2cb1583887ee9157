package policy

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// clauseReaders read the clauses of a line, by their first words. A clause with another first word
// is DURATION apart.
var clauseReaders = map[string]func(*lineParser){
	wordFixed:    (*lineParser).fixed,
	wordBurst:    (*lineParser).burst,
	wordIn:       (*lineParser).zone,
	wordFrom:     (*lineParser).from,
	forAtMost[0]: (*lineParser).hold,
}

// clauses reads the clauses, in any order.
func (p *lineParser) clauses() {
	for p.token.text == "," && !p.commaThen(wordThen) {
		comma, t := p.next(), p.token
		read, lower := clauseReaders[t.text], strings.ToLower(t.text)
		switch {
		case read != nil:
			read(p)
		case clauseReaders[lower] != nil:
			fail(t.at, "write "+lower, "%s is not in small letters", clip(t.text))
		default:
			p.apart(comma)
		}
	}
}

// once fails if a clause is there already. t is its first word.
func once(t token, there bool) {
	if there {
		fail(t.at, "write it once", "%s is there already", t.text)
	}
}

func (p *lineParser) fixed() {
	t := p.next()
	once(t, p.d.kinds[weir.Fixed])
	p.d.kinds[weir.Fixed], p.d.at.kind = true, t.at
	for {
		switch p.token.text {
		case wordFrom:
			p.from()
		case wordIn:
			p.zone()
		default:
			return
		}
	}
}

func (p *lineParser) burst() {
	once(p.next(), p.d.limit.Burst > 0)
	p.value(p.d.setBurst, "write one such as burst 20: the units that are there after a pause", "the number of the burst is missing")
}

func (p *lineParser) zone() {
	once(p.next(), p.d.limit.Zone != "")
	p.value(p.d.setZone, useZone, "the time zone is missing")
}

func (p *lineParser) from() {
	once(p.next(), p.d.anchor != weir.NoPeriod || p.d.kinds[weir.FixedFromFirst])
	the := p.token.text == theFirstHit[0]
	if !the && p.token.text == theFirstHit[1] || the && p.second().text == theFirstHit[1] {
		p.firstHit()
		return
	}
	if the {
		p.next()
	}
	day := p.token
	if the && day.text == "last" {
		fail(day.at, "write from the 31st: a day beyond the month's end is its last day", "%s is not a day", clip(day.text))
	}
	p.value(p.d.setAnchor, "write fixed from the first hit, from the 14th of a month, or from sunday of a week", "the beginning of the windows is missing")
	if !the && p.d.anchor == weir.Month {
		fail(day.at, "write from the "+answer.Ordinal(p.d.limit.Anchor), "the is missing before %s", clip(day.text))
	} else if the && p.d.anchor == weir.Week {
		fail(day.at, "write from "+day.text, "a day of the week has no the")
	}
}

func (p *lineParser) firstHit() {
	at := p.token.at
	p.expect(theFirstHit, "write fixed from the first hit, or fixed alone for windows of the calendar")
	if !p.d.kinds[weir.Fixed] {
		fail(at, "write fixed from the first hit", "fixed is missing before from")
	}
	p.d.kinds[weir.FixedFromFirst] = true
}

func (p *lineParser) hold() {
	once(p.next(), p.d.hasHold)
	p.expect(forAtMost[1:], "write for at most 30s")
	p.value(p.d.setHold, "write one such as for at most 30s", "the longest time of a hold is missing")
}

func (p *lineParser) apart(comma token) {
	t := p.next()
	switch {
	case t.text == "":
		fail(t.at, "write one such as 3s apart, or remove the comma", "the time apart is missing")
	case t.text == wordBlock:
		fail(t.at, "write then block", "then is missing before block")
	case t.text == wordPer:
		fail(comma.at, "remove the comma", "a comma before per")
	case t.text == forAtMost[1] && p.d.kinds[weir.Concurrency]:
		fail(t.at, "write for at most 30s", "for is missing before at")
	case p.follow(atOnce) && p.d.hasWindow:
		failAtOncePerWindow(t.at, formatWindow(p.d.limit.Window))
	}
	if _, ok := parseLength(t.text); ok && p.d.hasApart {
		fail(t.at, "write one", "a time apart is there already")
	}
	if f := catch(func() { p.d.setApart(t.at, t.text) }); f != nil {
		switch {
		case t.text == "and" && p.token.text == wordBlock:
			f.next = "write then block"
		case len(p.d.limit.By) > 0 && p.token.text != wordApart && weir.ValidName(t.text):
			f.next += "; of another key, write per " + t.text + " in place of the comma"
		}
		panic(f)
	}
	if t := p.next(); t.text != wordApart {
		fail(t.at, "write "+FormatDuration(p.d.limit.MinInterval)+" apart", "apart is missing")
	}
}

func (p *lineParser) block() {
	if !p.commaThen(wordThen) {
		return
	}
	p.next()
	p.next()
	p.expect([]string{wordBlock}, "write then block 1h")
	p.value(p.d.setBlock, "write one such as then block 1h", "the length of the block is missing")
}
