package accesslog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/shorten"
)

// sampleLines is the largest number of lines from which a format is detected.
const sampleLines = 200

// ranks are the formats that are detected. A line votes for those of the first rank that has
// one that fits: the lines of each rank may fit a later one too.
var ranks = [][]Format{
	{JSONL},
	{ALB, ELB, Envoy, Traefik, HAProxy, Caddy, CloudFront},
	{Combined, Common, Logfmt},
	{NginxJSON},
}

// detect returns the format of a text from its first lines that are not blank: the one that
// most of them fit. Lines that fit no format, such as messages of the server, have no vote. The
// last line may be cut off. The error names what is missing if no format fits, and both formats
// if two fit equally; it is errEmpty if there are no lines.
func detect(sample []byte, o Options) (Format, error) {
	lines := firstLines(sample)
	if len(lines) == 0 {
		return "", errEmpty
	}
	for _, line := range lines {
		if columns, ok := bytes.CutPrefix(line, []byte(fieldsHeader)); ok {
			if bytes.Contains(columns, []byte("x-edge-")) {
				return CloudFront, nil
			}
			return W3C, nil
		}
	}
	b := newBallot(o)
	for _, line := range lines {
		b.vote(line)
	}
	return b.result(sample, lines)
}

// ballot counts the lines that fit formats.
type ballot struct {
	options  Options
	parsers  map[Format]*parser
	row      row
	votes    map[Format]int
	noZone   int    // lines with a time without a zone
	timed    int    // lines with a time, and without a client and a status
	untimed  int    // objects without a time
	timeName string // a member of one of them that is a time
}

func newBallot(o Options) *ballot {
	b := &ballot{options: o, parsers: map[Format]*parser{}, votes: map[Format]int{}}
	for _, rank := range ranks {
		for _, f := range rank {
			b.parsers[f] = newParser(f, o)
		}
	}
	return b
}

// vote counts a line, and reports whether it fits a format.
func (b *ballot) vote(line []byte) bool {
	var noZone, timed, untimed bool
	for _, rank := range ranks {
		fits := false
		for _, f := range rank {
			err := b.parsers[f].parse(&b.row, line)
			switch {
			case err == errNoZone:
				noZone = true
			case err == errNoTime && f == NginxJSON:
				untimed = true
				if b.timeName == "" {
					b.timeName = b.row.timeMember()
				}
			case f == JSONL && b.row.isTypical():
				b.votes[f]++
				fits = true
			case err != nil:
			case b.row.isTypical() && b.row.isAccess(b.options):
				b.votes[f]++
				fits = true
			default:
				timed = true
			}
		}
		if fits {
			return true
		}
	}
	switch {
	case noZone:
		b.noZone++
	case timed:
		b.timed++
	case untimed:
		b.untimed++
	}
	return false
}

// result returns the format with the most votes.
func (b *ballot) result(sample []byte, lines [][]byte) (Format, error) {
	var best, second Format
	for _, rank := range ranks {
		for _, f := range rank {
			n := b.votes[f]
			switch {
			case n == 0:
			case n > b.votes[best]:
				second = best
				best = f
			case n > b.votes[second]:
				second = f
			}
		}
	}
	first := shorten.Text(lines[0])
	switch {
	case b.votes[best] > b.votes[second]:
		return best, nil
	case best != "":
		return "", problem(fmt.Sprintf("%d of the first %d lines have the format %s, "+
			"and as many %s; name one with the format option", b.votes[best], len(lines), best, second))
	case isUTF16(sample):
		return "", problem("the file is UTF-16; convert it, as by iconv -f UTF-16 -t UTF-8")
	case bytes.IndexByte(sample, 0) >= 0:
		return "", problem("the file is binary: it has zero bytes; " +
			"give the log itself, or the log compressed by gzip or zstd")
	case b.noZone > 0:
		return "", problem(fmt.Sprintf("%d of the first %d lines have a time, and none a zone; "+
			"a guess could be wrong by hours; log it with an offset, "+
			"such as time_iso8601 of nginx, or name the zone with --log-zone", b.noZone, len(lines)))
	case b.untimed > 0 && b.timed == 0:
		name := b.timeName
		if name == "" {
			name = "NAME"
		}
		return "", problem(fmt.Sprintf("the objects have no time by a known name; "+
			"map the name of its member with --field time=%s; the first line is %q", name, first))
	case b.timed > 0:
		return "", problem(fmt.Sprintf("%d of the first %d lines have a time, "+
			"and none has an address as its client or a status of three digits; "+
			"the first line is %q; if it is an access log, name the format, "+
			"and map the client with --field remote_addr=NAME",
			b.timed, len(lines), first))
	}
	return "", problem(fmt.Sprintf("no format fits the first line, %q%s; "+
		"name one with the format option: %s",
		first, missingIn(lines[0]), strings.Join(FormatNames(), ", ")))
}

// missingIn returns the parts of an access that no word of a line has.
func missingIn(line []byte) string {
	var hasAddress, hasStatus bool
	for word := range bytes.FieldsSeq(line) {
		word = bytes.Trim(word, `"[](),;=`)
		hasAddress = hasAddress || isAddress(word)
		hasStatus = hasStatus || len(word) == 3 && isStatus(word)
	}
	switch {
	case !hasAddress && !hasStatus:
		return ", which has no address of a client and no status"
	case !hasAddress:
		return ", which has no address of a client"
	case !hasStatus:
		return ", which has no status"
	}
	return ""
}

// isUTF16 reports whether a text has the byte order mark of UTF-16, or zeros as every other byte.
func isUTF16(sample []byte) bool {
	if bytes.HasPrefix(sample, []byte("\xff\xfe")) || bytes.HasPrefix(sample, []byte("\xfe\xff")) {
		return true
	}
	zeros := [2]int{}
	for i, c := range sample {
		if c == 0 {
			zeros[i%2]++
		}
	}
	half := len(sample) / 2
	isOne := zeros[0] == 0 || zeros[1] == 0
	return half > 1 && isOne && (zeros[0]+zeros[1])*10 >= half*9
}

// isAccess reports whether a line that was read is an access: the client is an address, the
// status three digits, and the time one of the web. At least one of client and status is there.
// A client that Options.Fields map is that of the caller.
func (r *row) isAccess(o Options) bool {
	client, status := r.get(RemoteAddr), r.get(Status)
	hasStatus := hasValue(status)
	if hasStatus && !isStatus(status) {
		return false
	}
	hasClient := hasValue(client)
	if !hasClient {
		return hasStatus && r.instant >= year1990
	}
	isMapped := o.Fields[string(RemoteAddr)] != ""
	if isMapped || isAddress(client) || clientaddr.IsSocket(string(client)) {
		return true
	}
	return r.schema.mayBeHost && hasStatus && r.instant >= year1990
}

// year1990 is the instant of 1990-01-01 in UTC, before the first web server.
const year1990 = 631_152_000 * micro

// timeMember returns the path of the first member that is a time of a known notation, with a
// word for one in its name.
func (r *row) timeMember() string {
	for _, v := range r.values {
		name := strings.ToLower(string(v.path))
		isNamed := strings.Contains(name, "time") || strings.Contains(name, "date") ||
			strings.HasSuffix(name, "at")
		if !isNamed {
			continue
		}
		if at, err := parseInstant(v.text); err == errNoZone || err == nil && at >= year1990 {
			return string(v.path)
		}
	}
	return ""
}

// otherFormat returns the reason why a line is bad: err, or that it has another format than
// its file.
func otherFormat(line []byte, f Format, o Options, err error) error {
	switch err {
	case errColumns, errExtra, errQuote, errSpace, errBracket, errObject, errW3C, errPairs:
		o.Format = ""
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

// isTypical reports whether a line has the columns of its format, or an object the members that
// are typical of it. Every object with a time can be of nginx, and with a request of Caddy.
func (r *row) isTypical() bool {
	if r.schema.typical == nil {
		return true
	}
	isMember := func(name string) bool { return r.find(name) >= 0 }
	lacks := func(names string) bool {
		return !slices.ContainsFunc(strings.Fields(names), isMember)
	}
	isFulfilled := func(all []string) bool { return !slices.ContainsFunc(all, lacks) }
	return slices.ContainsFunc(r.schema.typical, isFulfilled)
}
