package accesslog

import (
	"bytes"
	"strings"
)

// parser reads the lines of one file.
type parser struct {
	format  Format
	options Options
	text    *schema // nil for JSON
	json    *schema // nil for text
	reader  jsonReader
}

func newParser(f Format, o Options) *parser {
	p := &parser{format: f, options: o}
	p.text, p.json = schemasOf(f, o)
	return p
}

// comment reads a line of a W3C log that begins with #, and reports whether it is one. The
// lines of a trace that are no attempts are comments too.
func (p *parser) comment(line []byte) bool {
	if p.format == JSONL {
		return isOtherCall(line)
	}
	if p.format != CloudFront || line[0] != '#' {
		return false
	}
	if columns, ok := strings.CutPrefix(string(line), fieldsHeader); ok {
		p.text = w3c(p.options, columns, true)
	}
	return true
}

// parse reads a line, which is not empty, into r.
func (p *parser) parse(r *row, line []byte) error {
	if p.json != nil && (p.text == nil || line[0] == '{') {
		r.reset(line, p.json)
		if err := p.reader.read(r); err != nil {
			return err
		}
		if needs := p.json.needs; needs != "" {
			if i := r.find(needs); i < 0 || r.members[i].value.kind != kindObject {
				return errNoRequest
			}
		}
		return r.readInstant()
	}
	r.reset(line, p.text)
	err := p.text.split(r)
	if err == nil {
		err = r.readInstant()
	}
	if err != nil && bytes.IndexByte(line, 0) >= 0 {
		return errBinary
	}
	return err
}

const errBinary = problem("the line is binary: it has zero bytes")
