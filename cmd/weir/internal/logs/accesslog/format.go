package accesslog

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/shorten"
)

// Format is a format of access logs, by its name on the command line.
type Format string

// The formats. Auto is detected from the first lines of each file. JSONL is a trace of
// package replay: [Detect] recognises it, and [Open] rejects it without Options.Traces.
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

// Formats returns the formats that Open reads, without Auto.
func Formats() []Format {
	return []Format{Combined, Common, NginxJSON, Caddy, Traefik, Envoy, ALB, CloudFront}
}

// sampleLines is the number of lines from which a format is detected.
const sampleLines = 20

// Detect returns the format of a text from its first 20 lines that are not blank: the one
// that most of them have. The last line may be cut off. The error names the first line if
// no format fits; it is [ErrEmpty] if there are no lines.
func Detect(sample []byte) (Format, error) {
	return detect(sample, Options{})
}

func detect(sample []byte, o Options) (Format, error) {
	lines := firstLines(sample)
	if len(lines) == 0 {
		return "", ErrEmpty
	}
	if isW3C(lines) {
		return CloudFront, nil
	}
	best, most := Format(""), 0
	for _, f := range []Format{JSONL, ALB, Envoy, Traefik, Combined, Common, Caddy, CloudFront, NginxJSON} {
		if n := readable(f, lines, o); n > most {
			best, most = f, n
		}
	}
	switch n := withoutZone(lines, o); {
	case most > 0:
	case bytes.IndexByte(sample, 0) >= 0:
		return "", problem("the file is binary: it has zero bytes; give the log itself, or the log compressed by gzip or zstd")
	case n > 0:
		return "", problem(fmt.Sprintf("%d of the first %d lines have a time, and none a zone; a guess could be wrong by hours; log it with an offset, such as time_iso8601 of nginx",
			n, len(lines)))
	default:
		return "", problem(fmt.Sprintf("no format fits the first line, %q; name one with the format option: %s",
			shorten.Text(lines[0]), joined(Formats())))
	}
	return best, nil
}

// withoutZone returns the number of lines that fit a format but for the zone of their time.
func withoutZone(lines [][]byte, o Options) (n int) {
	var r row
	for _, line := range lines {
		if slices.ContainsFunc(Formats(), func(f Format) bool { return newParser(f, o).parse(&r, line) == errNoZone }) {
			n++
		}
	}
	return n
}

// otherFormat returns the reason why a line is bad: err, or that it has another format than
// its file.
func otherFormat(line []byte, f Format, o Options, err error) error {
	switch err {
	case errColumns, errQuote, errSpace, errBracket, errObject, errW3C:
		if other, _ := detect(line, o); other != "" && other != f {
			return problem(fmt.Sprintf("the line has the format %s, and the file %s", other, f))
		}
	}
	return err
}

// firstLines returns the lines from which a format is detected.
func firstLines(sample []byte) (lines [][]byte) {
	for len(sample) > 0 && len(lines) < sampleLines {
		line, rest, _ := bytes.Cut(sample, []byte("\n"))
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
		sample = rest
	}
	return lines
}

// LooksLikeJSON reports whether one of the first lines of a text of [Sniff] begins like an
// object. It reads nothing from the text.
func LooksLikeJSON(text io.Reader) bool {
	b, ok := text.(*bufio.Reader)
	if !ok {
		return false
	}
	sample, _ := b.Peek(min(b.Buffered(), sampleBytes))
	return slices.ContainsFunc(firstLines(sample), func(line []byte) bool { return line[0] == '{' })
}

// isW3C reports whether one of the lines is the header of a W3C log.
func isW3C(lines [][]byte) bool {
	return slices.ContainsFunc(lines, func(line []byte) bool { return bytes.HasPrefix(line, []byte(fieldsHeader)) })
}

// readable returns the number of lines that have a format.
func readable(f Format, lines [][]byte, o Options) (n int) {
	p, r := newParser(f, o), &row{}
	for _, line := range lines {
		err := p.parse(r, line)
		if r.schema.columns == nil && !r.jsonFits(f) || err != nil && f != JSONL {
			continue
		}
		n++
	}
	return n
}

// jsonFits reports whether an object has the members that are typical of a format. Every
// object with a time can be of nginx, and with a request of Caddy.
func (r *row) jsonFits(f Format) bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return r.find(name) >= 0 })
	}
	switch f {
	case JSONL:
		return has("at_us") || has("trace") && has("sample") && has("dropped") // a line of calls, or the header
	case Traefik:
		return has("ClientHost", "ClientAddr", "DownstreamStatus", "StartUTC")
	case Envoy:
		return has("start_time") && has("response_code", "authority", ":authority", "x_forwarded_for") ||
			has("start_time", "timestamp", "time") && has("response_flags", "downstream_remote_address", "downstream_remote_address_without_port")
	}
	return true
}

// joined returns the names of formats with commas.
func joined(all []Format) string {
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// problem is an error that is a constant text, so that a bad line allocates nothing.
type problem string

func (p problem) Error() string { return string(p) }

// ErrEmpty reports a text without lines.
const ErrEmpty = problem("the file has no lines")
