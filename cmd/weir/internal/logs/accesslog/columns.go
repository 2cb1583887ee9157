package accesslog

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
)

// layout is the columns of a text.
type layout struct {
	names   []string       // of the columns, as the format's documentation has them
	from    [facts]origin  // the column of each fact
	headers map[string]int // columns with fields of the request's header, by name in lower case
	timeAt  int            // the column with the instant
	dateAt  int            // the column with the date of a time, or -1
}

// origin is the place of a fact.
type origin struct {
	column int // -1: the format does not have the fact
	how    how
}

// newLayout returns the layout of columns. The names of options are those of the columns.
func newLayout(o Options, names string, from map[fact]origin, timeAt int, headers map[string]int) *layout {
	l := &layout{names: strings.Fields(names), headers: headers, timeAt: timeAt, dateAt: -1}
	for f := range l.from {
		l.from[f].column = -1
		if s, ok := from[fact(f)]; ok {
			l.from[f] = s
		}
	}
	l.mapped(o)
	return l
}

// mapped changes the columns to those of Options.Fields. A column that the format does not
// have leaves the fact without a value.
func (l *layout) mapped(o Options) {
	for f := remoteAddr; f < facts; f++ {
		if name := o.Fields[factNames[f]]; name != "" {
			l.from[f] = origin{slices.Index(l.names, name), plain}
			if f == remoteAddr {
				l.from[f].how = lastAddress
			}
		}
	}
	if name := o.Fields["time"]; name != "" {
		l.timeAt, l.dateAt = slices.Index(l.names, name), -1
	}
}

// get returns the value of a field, or nil.
func (l *layout) get(e *Entry, f Field) []byte {
	at, h := -1, plain
	switch f.fact {
	case none:
	case own:
		at = slices.Index(l.names, f.name)
	case header:
		if i, ok := l.headers[f.name]; ok {
			at = i
		} else if f.name == "user-agent" {
			at, h = l.from[userAgent].column, l.from[userAgent].how
		} else if f.name == "referer" {
			at, h = l.from[referer].column, l.from[referer].how
		}
	default:
		at, h = l.from[f.fact].column, l.from[f.fact].how
	}
	if at < 0 || at >= len(e.columns) {
		return nil
	}
	return e.derive(e.value(e.columns[at]), h)
}

// instant sets the instant of a line from its columns.
func (l *layout) instant(e *Entry) (err error) {
	if l.timeAt < 0 {
		return errTimeName
	}
	if l.timeAt >= len(e.columns) {
		return errColumns
	}
	at := e.value(e.columns[l.timeAt])
	if l.dateAt < 0 {
		e.At, err = parseInstant(at)
		return err
	}
	e.scratch = append(append(e.scratch, e.value(e.columns[l.dateAt])...), 'T')
	e.scratch = append(append(e.scratch, at...), 'Z')
	e.At, err = parseInstant(e.scratch)
	return err
}

const (
	errColumns = problem("the line has too few columns")
	errExtra   = problem("the line has more columns than the common format; is it combined?")
	errQuote   = problem("a quoted column does not end")
	errSpace   = problem("a space should follow a quoted column; is a quote inside not escaped?")
	errBracket = problem("a time in brackets should stand here")
	errStatus  = problem("the status is not three digits")

	errTimeName = problem("the format has no column with the time, or none with the name that time=NAME maps")
)

// words splits the rest of a line, from the byte at i, into columns with one space between
// them. A column may be quoted.
func (e *Entry) words(i int) error {
	b := e.line
	for i < len(b) {
		if b[i] == '"' {
			end, k := quoteEnd(b, i+1)
			if end < 0 {
				return errQuote
			}
			e.columns = append(e.columns, span{uint32(i + 1), uint32(end), k})
			if i = end + 1; i < len(b) && b[i] != ' ' {
				return errSpace
			}
			i++
			continue
		}
		end := bytes.IndexByte(b[i:], ' ')
		if end < 0 {
			end = len(b) - i
		}
		e.columns = append(e.columns, span{uint32(i), uint32(i + end), kindWord})
		i += end + 1
	}
	return nil
}

// quoteEnd returns the place of the quote that ends a string, or -1. The string begins at
// i, behind its first quote.
func quoteEnd(b []byte, i int) (end int, k kind) {
	k = kindQuoted
	for ; i < len(b); i++ {
		switch b[i] {
		case '\\':
			k = kindEscaped
			i++
		case '"':
			return i, k
		}
	}
	return -1, k
}

// status reports whether a column is a status: three digits, or - of a request without
// an answer.
func (e *Entry) isStatus(column int) bool {
	b := e.line[e.columns[column].from:e.columns[column].to]
	if len(b) == 1 && (b[0] == '-' || b[0] == '0') {
		return true
	}
	return len(b) == 3 && len(bytes.Trim(b, "0123456789")) == 0
}

// The columns of the common log format and its relatives.
const (
	clfRemote = iota
	clfIdent
	clfUser
	clfTime
	clfRequest
	clfStatus
	clfBytes
	clfReferer
	clfAgent
	clfNext
)

var clfFacts = map[fact]origin{
	remoteAddr: {clfRemote, lastAddress}, user: {clfUser, plain}, status: {clfStatus, plain}, size: {clfBytes, plain},
	method: {clfRequest, requestMethod}, path: {clfRequest, requestPath}, query: {clfRequest, requestQuery}, host: {clfRequest, requestHost},
	referer: {clfReferer, plain}, userAgent: {clfAgent, plain},
}

const clfNames = "remote ident user time request status bytes"

func commonLayout(o Options) *layout {
	return newLayout(o, clfNames, clfFacts, clfTime, nil)
}

// combinedLayout has the tenth column of the main format in the configuration of nginx.
func combinedLayout(o Options) *layout {
	return newLayout(o, clfNames+" referer user_agent x_forwarded_for", clfFacts, clfTime, map[string]int{"x-forwarded-for": clfNext})
}

func traefikLayout(o Options) *layout {
	return newLayout(o, clfNames+" referer user_agent count router server duration", clfFacts, clfTime, nil)
}

// parseCLF reads the first seven columns and those behind them. A user name may have
// spaces.
func (e *Entry) parseCLF() error {
	if start := clfStart(e.line); start > 0 {
		e.line = append(e.line[:0], e.line[start:]...)
	}
	b := e.line
	remote := bytes.IndexByte(b, ' ')
	if remote <= 0 {
		return errColumns
	}
	for b[remote-1] == ',' { // a list of addresses, as Traefik and proxies log it
		end := bytes.IndexByte(b[remote+1:], ' ')
		if end <= 0 {
			return errColumns
		}
		remote += end + 1
	}
	ident := bytes.IndexByte(b[remote+1:], ' ')
	if ident <= 0 {
		return errColumns
	}
	ident += remote + 1
	open := bytes.Index(b[ident:], []byte(" ["))
	if open <= 0 {
		return errBracket
	}
	open += ident
	end := bytes.IndexByte(b[open:], ']')
	if end < 0 {
		return errBracket
	}
	end += open
	e.columns = append(e.columns, span{0, uint32(remote), 0}, span{uint32(remote + 1), uint32(ident), 0},
		span{uint32(ident + 1), uint32(open), 0}, span{uint32(open + 2), uint32(end), 0})
	if err := e.words(end + 2); err != nil {
		return err
	}
	switch {
	case len(e.columns) <= clfBytes || e.columns[clfRequest].kind == kindWord:
		return errColumns
	case !e.isStatus(clfStatus):
		return errStatus
	}
	return nil
}

// clfStart returns the place of the client address in a line that begins with other words: a
// virtual host, or the prefix of syslog or of a container's log. The address is the second
// word, or the first one with a - behind it, so that no user name is taken for it.
func clfStart(b []byte) int {
	first := bytes.IndexByte(b, ' ')
	if first <= 0 || b[first-1] == ',' || bytes.HasPrefix(b[first+1:], []byte("- ")) || isAddress(b[:first]) && !hasPort(b[:first]) {
		return 0
	}
	for i := first + 1; i < len(b) && b[i] != '['; {
		end := bytes.IndexByte(b[i:], ' ')
		if end < 0 {
			break
		}
		end += i
		if (i == first+1 || bytes.HasPrefix(b[end+1:], []byte("- "))) && isAddress(b[i:end]) {
			return i
		}
		i = end + 1
	}
	return 0
}

// isAddress reports whether a column is an IP address.
func isAddress(b []byte) bool {
	if len(b) < 2 || bytes.IndexByte(b, '.') < 0 && bytes.IndexByte(b, ':') < 0 {
		return false
	}
	_, err := netip.ParseAddr(string(withoutPort(b)))
	return err == nil
}

// hasPort reports whether an address has a port: of a client that is a column of its own.
func hasPort(b []byte) bool {
	return b[len(b)-1] != ']' && len(withoutPort(b)) < len(b)
}

func (p *parser) common(e *Entry) error {
	if err := e.parseCLF(); err != nil {
		return err
	}
	if len(e.columns) > clfReferer {
		return errExtra
	}
	return nil
}

func (p *parser) combined(e *Entry) error {
	if err := e.parseCLF(); err != nil {
		return err
	}
	if len(e.columns) < clfNext || e.columns[clfReferer].kind == kindWord || e.columns[clfAgent].kind == kindWord {
		return errColumns
	}
	if len(e.columns) > clfNext && e.columns[clfNext].kind == kindWord {
		e.columns = e.columns[:clfNext] // a number, not x_forwarded_for
	}
	return nil
}

func (p *parser) traefik(e *Entry) error {
	if err := e.parseCLF(); err != nil {
		return err
	}
	if n := len(e.columns); n != clfNext+4 || e.columns[clfNext].kind != kindWord || !bytes.HasSuffix(e.line, []byte("ms")) {
		return errColumns
	}
	return nil
}

// The columns of Envoy's default format.
const (
	envoyTime = iota
	envoyRequest
	envoyStatus
	envoyFlags
	envoyReceived
	envoySent
	envoyDuration
	envoyUpstreamTime
	envoyForwarded
	envoyAgent
	envoyID
	envoyAuthority
	envoyUpstream
	envoyColumns
)

func envoyLayout(o Options) *layout {
	return newLayout(o, "start_time request response_code response_flags bytes_received bytes_sent duration upstream_service_time x_forwarded_for user_agent request_id authority upstream_host",
		map[fact]origin{
			remoteAddr: {envoyForwarded, lastAddress}, status: {envoyStatus, plain}, size: {envoySent, plain},
			method: {envoyRequest, requestMethod}, path: {envoyRequest, requestPath}, query: {envoyRequest, requestQuery},
			host: {envoyAuthority, plain}, userAgent: {envoyAgent, plain},
		}, envoyTime, map[string]int{"x-forwarded-for": envoyForwarded, "x-request-id": envoyID})
}

func (p *parser) envoy(e *Entry) error {
	b := e.line
	end := bytes.IndexByte(b, ']')
	if b[0] != '[' || end < 0 {
		return errBracket
	}
	e.columns = append(e.columns, span{1, uint32(end), kindWord})
	if err := e.words(end + 2); err != nil {
		return err
	}
	switch {
	case len(e.columns) != envoyColumns || e.columns[envoyRequest].kind == kindWord || e.columns[envoyForwarded].kind == kindWord:
		return errColumns
	case !e.isStatus(envoyStatus):
		return errStatus
	}
	return nil
}

// The columns of an Application Load Balancer that are read by name.
const (
	albTime    = 1
	albClient  = 3
	albStatus  = 8
	albSent    = 11
	albRequest = 12
	albAgent   = 13
	albMin     = 17 // the columns of the first version
)

func albLayout(o Options) *layout {
	return newLayout(o, "type time elb client:port target:port request_processing_time target_processing_time response_processing_time elb_status_code target_status_code received_bytes sent_bytes request user_agent ssl_cipher ssl_protocol target_group_arn trace_id domain_name chosen_cert_arn matched_rule_priority request_creation_time actions_executed redirect_url error_reason target:port_list target_status_code_list classification classification_reason conn_trace_id",
		map[fact]origin{
			remoteAddr: {albClient, beforePort}, status: {albStatus, plain}, size: {albSent, plain},
			method: {albRequest, requestMethod}, path: {albRequest, requestPath}, query: {albRequest, requestQuery}, host: {albRequest, requestHost},
			userAgent: {albAgent, plain},
		}, albTime, nil)
}

func (p *parser) alb(e *Entry) error {
	if err := e.words(0); err != nil {
		return err
	}
	switch {
	case len(e.columns) < albMin || e.columns[albRequest].kind == kindWord || e.columns[albAgent].kind == kindWord:
		return errColumns
	case !e.isStatus(albStatus):
		return errStatus
	}
	return nil
}

// fieldsHeader begins the line of a W3C log that names its columns.
const fieldsHeader = "#Fields:"

// cloudFrontNames are the columns of CloudFront, for a part of a file without its header.
const cloudFrontNames = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end"

// w3cLayout returns the layout of the names in a header.
func w3cLayout(o Options, names string) *layout {
	all := strings.Fields(names)
	from, headers := map[fact]origin{}, map[string]int{}
	use := func(f fact, h how, names ...string) {
		for _, name := range names {
			if i := slices.Index(all, name); i >= 0 {
				from[f] = origin{i, h}
				return
			}
		}
	}
	use(remoteAddr, address, "c-ip")
	use(method, plain, "cs-method")
	use(path, pathOf, "cs-uri-stem", "cs-uri")
	use(query, plain, "cs-uri-query")
	use(host, plain, "x-host-header", "cs(Host)", "cs-host")
	use(status, plain, "sc-status")
	use(size, plain, "sc-bytes")
	use(user, percent, "cs-username")
	use(userAgent, percent, "cs(User-Agent)")
	use(referer, percent, "cs(Referer)")
	for i, name := range all {
		if inner, ok := strings.CutPrefix(name, "cs("); ok && strings.HasSuffix(inner, ")") {
			headers[strings.ToLower(inner[:len(inner)-1])] = i
		}
	}
	if i := slices.Index(all, "x-forwarded-for"); i >= 0 {
		headers["x-forwarded-for"] = i
	}
	timeAt := slices.IndexFunc(all, func(name string) bool { return name == "timestamp(ms)" || name == "timestamp" })
	dateAt := -1
	if timeAt < 0 {
		timeAt, dateAt = slices.Index(all, "time"), slices.Index(all, "date")
	}
	l := newLayout(o, "", nil, timeAt, headers)
	l.names, l.dateAt = all, dateAt
	for f, s := range from {
		l.from[f] = s
	}
	l.mapped(o)
	return l
}

// w3c reads a line of a W3C log: columns with one tab between them, or spaces.
func (p *parser) w3c(e *Entry) error {
	b, separator := e.line, byte('\t')
	if bytes.IndexByte(b, separator) < 0 {
		separator = ' '
	}
	for i := 0; i <= len(b); {
		end := bytes.IndexByte(b[i:], separator)
		if end < 0 {
			end = len(b) - i
		}
		e.columns = append(e.columns, span{uint32(i), uint32(i + end), kindWord})
		for i += end + 1; separator == ' ' && i < len(b) && b[i] == ' '; i++ {
		}
	}
	if p.sawHeader && len(e.columns) != len(p.layout.names) || len(e.columns) < 12 && !p.sawHeader {
		return errW3C
	}
	return nil
}

const errW3C = problem("the number of columns differs from that of the #Fields line")
