package accesslog

import (
	"bytes"
	"strings"
	"time"
)

// Format is a format of access logs, by its name on the command line.
type Format string

// The formats. Auto is detected from the first lines of each file. JSONL is a trace of
// package replay, which is detected too.
const (
	Auto       Format = "auto"
	JSONL      Format = "jsonl"
	Combined   Format = "combined"
	Common     Format = "common"
	NginxJSON  Format = "nginx-json"
	Caddy      Format = "caddy"
	Traefik    Format = "traefik"
	Envoy      Format = "envoy"
	ALB        Format = "alb"
	ELB        Format = "elb"
	CloudFront Format = "cloudfront"
	W3C        Format = "w3c"
	HAProxy    Format = "haproxy"
	Logfmt     Format = "logfmt"

	NginxProxyManager Format = "nginx-proxy-manager"
)

// formats are those of access logs.
var formats = []Format{
	Combined, Common, NginxJSON, NginxProxyManager, Caddy, Traefik, Envoy, ALB, ELB, CloudFront, W3C,
	HAProxy, Logfmt,
}

// FormatNames returns the names of the formats of access logs, without Auto.
func FormatNames() []string { return texts(formats) }

// parser reads the lines of one file.
type parser struct {
	format  Format
	options Options
	texts   []*schema // the schemas of lines of text, one for each layout; nil = all lines are JSON
	text    *schema   // the one of texts that the last line had
	json    *schema   // the schema of lines of JSON; nil = all lines are text
	reader  jsonReader
	inner   []byte // memory for a line that was in an object of Docker
}

func newParser(f Format, o Options) *parser {
	p := &parser{format: f, options: o, json: newSchema(objects[f], o)}
	for _, l := range lines[f] {
		p.texts = append(p.texts, newSchema(l, o))
	}
	switch {
	case f == CloudFront:
		p.texts = []*schema{w3cSchema(o, cloudFrontColumns, false)}
	case f == W3C:
		p.texts = []*schema{w3cSchema(o, "", true)}
	}
	if p.texts != nil {
		p.text = p.texts[0]
	}
	if f == HAProxy && o.Zone == nil {
		p.text.zone = time.UTC // HAProxy logs no zone; Stats.Zoneless counts these times
	}
	return p
}

// readComment reports whether a line is no request and no mistake: a line of a W3C log that begins
// with #, or a call of a trace that is no attempt. It reads the names of columns in a W3C log.
func (p *parser) readComment(line []byte) bool {
	if p.format == JSONL {
		return isOtherCall(line)
	}
	if p.format != CloudFront && p.format != W3C || line[0] != '#' {
		return false
	}
	if columns, ok := strings.CutPrefix(string(line), fieldsHeader); ok {
		p.text = w3cSchema(p.options, columns, true)
	}
	return true
}

// parse reads a line, which is not empty, into r.
func (p *parser) parse(r *row, line []byte) error {
	if line = p.unwrap(line); len(line) == 0 {
		return errColumns
	}
	if p.json != nil {
		object, before := objectIn(line)
		if object == nil && p.text == nil {
			object = line // the error of one that is none
		}
		if object != nil {
			return p.parseObject(r, object, before)
		}
	}
	err := p.parseText(r, line)
	if err != nil && bytes.IndexByte(line, 0) >= 0 {
		return errBinary
	}
	return err
}

// parseObject reads an object into r. before is the text before it in the line.
func (p *parser) parseObject(r *row, object, before []byte) error {
	r.reset(object, p.json)
	if err := p.reader.read(r); err != nil {
		return err
	}
	if needs := p.json.needs; needs != "" {
		if i := r.find(needs); i < 0 || !r.values[i].isObject {
			return errNoRequest
		}
	}
	if p.format == Caddy && isOtherLogger(r, before) {
		return errLogger
	}
	if p.options.Format == "" && p.format != NginxJSON && !r.isTypical() {
		return errMessage
	}
	err := r.readInstant()
	if err == errNoTime && p.format == Caddy {
		r.instant, err = consoleInstant(before)
	}
	return err
}

// parseText reads a line of text into r, by the layout of the line before or, if that does not fit, by
// another one of the format.
func (p *parser) parseText(r *row, line []byte) error {
	r.reset(line, p.text)
	err := p.text.split(r, line)
	for i := 0; i < len(p.texts) && len(p.texts) > 1 && isOtherLayout(err); i++ {
		if p.texts[i] == p.text {
			continue
		}
		r.reset(line, p.texts[i])
		if p.texts[i].split(r, line) == nil {
			p.text = p.texts[i]
			err = nil
		}
	}
	if err == nil {
		err = r.readInstant()
	}
	return err
}

// isOtherLayout reports whether a line with an error may have another layout of its format.
func isOtherLayout(err error) bool {
	return err == errColumns || err == errExtra || err == errStatus || err == errBracket
}

// problem is an error that is a constant text, so that a bad line allocates nothing.
type problem string

func (p problem) Error() string { return string(p) }

// The errors of texts and lines of every format.
const (
	errEmpty  = problem("the file has no lines")
	errUTF16  = problem("the file is UTF-16; convert it, as by iconv -f UTF-16 -t UTF-8")
	errBinary = problem("the line is binary: it has zero bytes")
)
