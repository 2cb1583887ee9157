package accesslog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/shorten"
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
	CloudFront Format = "cloudfront"
)

// formats are those of access logs.
var formats = []Format{Combined, Common, NginxJSON, Caddy, Traefik, Envoy, ALB, CloudFront}

// FormatNames returns the names of the formats of access logs, without Auto.
func FormatNames() []string { return texts(formats) }

// sampleLines is the number of lines from which a format is detected.
const sampleLines = 20

// detect returns the format of a text from its first 20 lines that are not blank: the one
// that most of them have. The last line may be cut off. The error names the first line if
// no format fits; it is errEmpty if there are no lines.
func detect(sample []byte, o Options) (Format, error) {
	lines := firstLines(sample)
	if len(lines) == 0 {
		return "", errEmpty
	}
	if slices.ContainsFunc(lines, func(line []byte) bool { return bytes.HasPrefix(line, []byte(fieldsHeader)) }) {
		return CloudFront, nil
	}
	best, most, noZone := Format(""), 0, 0
	for _, f := range []Format{JSONL, ALB, Envoy, Traefik, Combined, Common, Caddy, CloudFront, NginxJSON} {
		n, withoutZone := readable(f, lines, o)
		if n > most {
			best, most = f, n
		}
		noZone = max(noZone, withoutZone)
	}
	switch {
	case most > 0:
		return best, nil
	case bytes.IndexByte(sample, 0) >= 0:
		return "", problem("the file is binary: it has zero bytes; give the log itself, or the log compressed by gzip or zstd")
	case noZone > 0:
		return "", problem(fmt.Sprintf("%d of the first %d lines have a time, and none a zone; a guess could be wrong by hours; log it with an offset, such as time_iso8601 of nginx",
			noZone, len(lines)))
	}
	return "", problem(fmt.Sprintf("no format fits the first line, %q; name one with the format option: %s",
		shorten.Text(lines[0]), strings.Join(FormatNames(), ", ")))
}

// otherFormat returns the reason why a line is bad: err, or that it has another format than
// its file.
func otherFormat(line []byte, f Format, o Options, err error) error {
	switch err {
	case errColumns, errExtra, errQuote, errSpace, errBracket, errObject, errW3C:
		if other, _ := detect(line, o); other != "" && other != f {
			return problem(fmt.Sprintf("the line has the format %s, and the file %s", other, f))
		}
	}
	return err
}

// firstLines returns the lines from which a format is detected.
func firstLines(sample []byte) (lines [][]byte) {
	for line := range bytes.Lines(sample) {
		if line = bytes.TrimSpace(line); len(line) > 0 && len(lines) < sampleLines {
			lines = append(lines, line)
		}
	}
	return lines
}

// looksLikeJSON reports whether one of the first lines of a text begins like an object.
func looksLikeJSON(sample []byte) bool {
	return slices.ContainsFunc(firstLines(sample), func(line []byte) bool { return line[0] == '{' })
}

// readable returns the number of lines that have a format, and of those that would have it with
// a zone in their time.
func readable(f Format, lines [][]byte, o Options) (n, withoutZone int) {
	p, r := newParser(f, o), &row{}
	for _, line := range lines {
		err := p.parse(r, line)
		switch {
		case err == errNoZone:
			withoutZone++
		case r.isTypical() && (err == nil || f == JSONL):
			n++
		}
	}
	return n, withoutZone
}

// isTypical reports whether a line has the columns of its format, or an object the members that
// are typical of it. Every object with a time can be of nginx, and with a request of Caddy.
func (r *row) isTypical() bool {
	lacks := func(names string) bool {
		return !slices.ContainsFunc(strings.Fields(names), func(name string) bool { return r.find(name) >= 0 })
	}
	isFulfilled := func(all []string) bool { return !slices.ContainsFunc(all, lacks) }
	return r.schema.typical == nil || slices.ContainsFunc(r.schema.typical, isFulfilled)
}

// parser reads the lines of one file.
type parser struct {
	format  Format
	options Options
	text    *schema // nil for JSON
	json    *schema // nil for text
	reader  jsonReader
}

func newParser(f Format, o Options) *parser {
	p := &parser{format: f, options: o, text: newSchema(lines[f], o), json: newSchema(objects[f], o)}
	if f == CloudFront {
		p.text = w3cSchema(o, cloudFrontColumns, false)
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
	if columns, ok := strings.CutPrefix(string(line), fieldsHeader); ok {
		p.text = w3cSchema(p.options, columns, true)
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
			if i := r.find(needs); i < 0 || !r.values[i].isObject {
				return errNoRequest
			}
		}
		return r.readInstant()
	}
	r.reset(line, p.text)
	err := p.text.split(r, line)
	if err == nil {
		err = r.readInstant()
	}
	if err != nil && bytes.IndexByte(line, 0) >= 0 {
		return errBinary
	}
	return err
}

// problem is an error that is a constant text, so that a bad line allocates nothing.
type problem string

func (p problem) Error() string { return string(p) }

// The errors of texts and lines of every format.
const (
	errEmpty  = problem("the file has no lines")
	errBinary = problem("the line is binary: it has zero bytes")
)
