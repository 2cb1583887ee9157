package accesslog

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/shorten"
)

// maxVotes is the number of lines that choose a format. Lines that fit no format are not counted.
const maxVotes = 200

// ranks are the formats that are detected, in the order in which they are tried. A line votes for the
// formats of the first rank that it fits, and for none of a later rank: every access of Traefik in
// JSON, for example, would fit nginx-json too.
var ranks = [][]Format{
	{JSONL},
	{ALB, ELB, Envoy, Traefik, HAProxy, NginxProxyManager, Caddy, CloudFront},
	{Combined, Common, Logfmt},
	{NginxJSON},
}

// detect returns the format that most of the first lines of a text fit. Lines that fit no format,
// such as messages of the server, have no vote. The last line may be cut off. If no format fits, the
// error names the missing fields. If two fit equally, it names both. It is errEmpty if all lines are
// blank.
func detect(sample []byte, o Options) (Format, error) {
	if isUTF16(sample) {
		return "", errUTF16
	}
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
	votes := 0
	for i, line := range lines {
		if b.vote(line) {
			votes++
		}
		if votes == maxVotes {
			lines = lines[:i+1]
			break
		}
	}
	return b.result(sample, lines)
}

// ballot counts the lines that fit each format, and the others by the reason for which they do not.
type ballot struct {
	options Options
	parsers map[Format]*parser
	row     row
	votes   map[Format]int // by format: the lines that fit it

	// Lines that fit no format:
	noZone  int // with a time without a zone
	timed   int // with a time, but without a client and a status
	untimed int // objects without a time
	unnamed int // without the column that Options.Fields maps as the time

	timeName string // the path of a member that may be a time, if no known one is there
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
			case err == errLogger:
				b.timed++
				return false
			case err == errNoZone:
				noZone = true
			case err == errTimeName:
				b.unnamed++
			case err == errNoTime && f == NginxJSON:
				untimed = true
				b.timeName = cmp.Or(b.timeName, b.row.timeMember())
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
	switch {
	case b.votes[best] > b.votes[second]:
		return best, nil
	case best != "":
		return "", problem(fmt.Sprintf("%d of the first %d lines have the format %s, "+
			"and as many %s; name one with --format", b.votes[best], len(lines), best, second))
	}
	return "", b.reason(sample, lines)
}

// reason returns the reason why no line fits a format.
func (b *ballot) reason(sample []byte, lines [][]byte) problem {
	first := shorten.Text(lines[0])
	switch {
	case bytes.IndexByte(sample[:min(len(sample), sampleBytes)], 0) >= 0:
		return problem("the file is binary: it has zero bytes; " +
			"give the log itself, or the log compressed by gzip or zstd")
	case b.noZone > 0:
		return problem(fmt.Sprintf("%d of the first %d lines have a time, and none a zone; "+
			"a guess could be wrong by hours; log it with an offset, "+
			"such as time_iso8601 of nginx, or name the zone with --log-zone", b.noZone, len(lines)))
	case b.unnamed > 0:
		return problem(fmt.Sprintf("no format has the column %q of --field time=%s; "+
			"the first line is %q", b.options.Fields["time"], b.options.Fields["time"], first))
	case b.untimed > 0 && b.timed == 0:
		name := b.timeName
		if name == "" {
			name = "NAME"
		}
		return problem(fmt.Sprintf("the objects have no time by a known name; "+
			"map the name of its member with --field time=%s; the first line is %q", name, first))
	case b.timed > 0:
		return problem(fmt.Sprintf("%d of the first %d lines have a time, "+
			"and none has an address as its client or a status of three digits; "+
			"the first line is %q; if it is an access log, name the format, "+
			"and map the client with --field remote_addr=NAME",
			b.timed, len(lines), first))
	}
	return problem(fmt.Sprintf("no format fits the first line, %q%s; "+
		"name one with --format: %s",
		first, missingIn(lines[0]), strings.Join(FormatNames(), ", ")))
}

// missingIn returns a part of a message: the fields of an access that no word of a line can be.
func missingIn(line []byte) string {
	var hasAddress, hasStatus, hasTime bool
	var before []byte // the word before, with a space
	isGap := func(c rune) bool { return strings.ContainsRune(" \t,;|", c) }
	for word := range bytes.FieldsFuncSeq(line, isGap) {
		word = bytes.Trim(word, `"[]()=`)
		hasAddress = hasAddress || isAddress(word)
		hasStatus = hasStatus || len(word) == 3 && isStatus(word)
		hasTime = hasTime || isTime(word) || isTime(append(before, word...))
		before = append(slices.Clone(word), ' ')
	}
	var missing []string
	if !hasTime {
		missing = append(missing, "no time")
	}
	if !hasAddress {
		missing = append(missing, "no address of a client")
	}
	if !hasStatus {
		missing = append(missing, "no status")
	}
	if missing == nil {
		return ""
	}
	return ", which has " + strings.Join(missing, " and ")
}

// isTime reports whether a text is a time after 1990 in a known notation, with or without a zone.
func isTime(text []byte) bool {
	at, err := parseInstant(text)
	return err == errNoZone || err == nil && at >= year1990
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

// isAccess reports whether a line that was read is an access. Its client, if it has one, is an
// address, and its status three digits. It has at least one of them, and is no event. If Options.Fields
// maps the client, any text can be one.
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
	if o.Fields[string(RemoteAddr)] != "" {
		return true
	}
	if !hasStatus && r.isEvent() {
		return false
	}
	if isAddress(client) || clientaddr.IsSocket(string(client)) {
		return true
	}
	return r.schema.mayBeHost && hasStatus && r.instant >= year1990
}

// isEvent reports whether a line without a status is an event of an application, such as a failed
// login. An event has the level of a failure, or neither a method nor a path. For the latter JSON
// needs a level, because a log of requests may hold only an address and a time.
func (r *row) isEvent() bool {
	level := r.find("level")
	if level >= 0 && isFailure(r.values[level].text) {
		return true
	}
	isPairs := r.schema.columns == nil && r.schema.split != nil
	mayBeEvent := isPairs || level >= 0
	return mayBeEvent && !hasValue(r.get(Method)) && !hasValue(r.get(Path))
}

// isFailure reports whether a level is above that of accesses.
func isFailure(level []byte) bool {
	switch strings.ToLower(string(level)) {
	case "warn", "warning", "err", "error", "crit", "critical", "fatal", "panic":
		return true
	}
	return false
}

// year1990 is the instant of 1990-01-01 in UTC, before the first web server.
const year1990 = 631_152_000 * micro

// timeMember returns the path of the first member that is a time in a known notation, and has a word
// for a time in its name; "" if there is none.
func (r *row) timeMember() string {
	for _, v := range r.values {
		name := strings.ToLower(string(v.path))
		isNamed := strings.Contains(name, "time") || strings.Contains(name, "date") ||
			strings.HasSuffix(name, "at")
		if !isNamed {
			continue
		}
		if isTime(v.text) {
			return string(v.path)
		}
	}
	return ""
}

// otherFormat returns the reason why a line is bad: that it has another format than its file, or
// else err.
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

// firstLines returns the lines of a text that are not blank, without white space around them.
func firstLines(sample []byte) (lines [][]byte) {
	for line := range bytes.Lines(sample) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// looksLikeJSON reports whether one of the first lines of a text begins like an object.
func looksLikeJSON(sample []byte) bool {
	return slices.ContainsFunc(firstLines(sample), func(line []byte) bool { return line[0] == '{' })
}

// isTypical reports whether an object has the members that are typical of its format. Lines of text,
// and formats without typical members, need none.
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
