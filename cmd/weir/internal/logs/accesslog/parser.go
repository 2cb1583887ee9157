package accesslog

import (
	"bytes"
	"strings"
)

// parser reads the lines of one file.
type parser struct {
	format    Format
	options   Options
	layout    *layout // nil for JSON
	object    *object // nil for text
	json      jsonReader
	sawHeader bool // a #Fields line has set the layout
}

func newParser(f Format, o Options) *parser {
	p := &parser{format: f, options: o}
	switch f {
	case Combined:
		p.layout = combinedLayout(o)
	case Common:
		p.layout = commonLayout(o)
	case JSONL:
		p.object = traceObject(o)
	case NginxJSON:
		p.object = nginxObject(o)
	case Caddy:
		p.object = caddyObject(o)
	case Traefik:
		p.layout, p.object = traefikLayout(o), traefikObject(o)
	case Envoy:
		p.layout, p.object = envoyLayout(o), envoyObject(o)
	case ALB:
		p.layout = albLayout(o)
	case CloudFront:
		p.layout = w3cLayout(o, cloudFrontNames)
	}
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
	if names, ok := strings.CutPrefix(string(line), fieldsHeader); ok {
		p.layout, p.sawHeader = w3cLayout(p.options, names), true
	}
	return true
}

// parse reads a line, which is not empty, into e.
func (p *parser) parse(e *Entry, line []byte) error {
	e.reset(line)
	if p.object != nil && (p.layout == nil || line[0] == '{') {
		return p.object.parse(e, &p.json)
	}
	e.layout = p.layout
	var err error
	switch p.format {
	case Combined:
		err = p.combined(e)
	case Common:
		err = p.common(e)
	case Traefik:
		err = p.traefik(e)
	case Envoy:
		err = p.envoy(e)
	case ALB:
		err = p.alb(e)
	case CloudFront:
		err = p.w3c(e)
	}
	if err == nil {
		err = p.layout.instant(e)
	}
	if err != nil && bytes.IndexByte(line, 0) >= 0 {
		return errBinary
	}
	return err
}

const errBinary = problem("the line is binary: it has zero bytes")
