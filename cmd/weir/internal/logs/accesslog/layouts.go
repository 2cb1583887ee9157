package accesslog

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
)

// layout describes the lines of a format. Its texts name columns, or members of an object by their
// dotted paths, with spaces between the names. The first of them with a value counts.
type layout struct {
	time    string               // the instant; the most exact one is the first
	fields  map[Field]string     // the fields; of a line of text also those of the request's header
	target  string               // the target of a request, such as /a?b: path and query
	request string               // a request line, such as GET /a?b HTTP/1.1: method, target, host
	convert map[Field]conversion // conversions of fields other than those of fieldConversions

	// columns are the names of the columns of a line of text, from the format's documentation. A name
	// stands between quotes or brackets if its column does. "" = the lines are JSON or logfmt.
	columns   string
	least     int                          // the least number of columns
	most      bool                         // lines with further columns have another format
	mayBeHost bool                         // the client may be a host name instead of an address
	split     func(r *row, b []byte) error // splits a line into columns; nil = the lines are JSON

	// prefixes are those of the names of header fields in JSON: http_x_user has the prefix http_.
	prefixes []string

	// needs is a member of every access in JSON, an object itself; "" = none.
	needs string

	// typical distinguishes the format from others in JSON. Each list has texts of names. An object
	// is of this format if, for some list, it has a member of each text. nil = every object is.
	typical [][]string
}

// forwardedFor is the header that lists the addresses of a client and of proxies.
const forwardedFor = "x-forwarded-for"

// clfFields and clfColumns are those of the common log format and its relatives.
var clfFields = map[Field]string{
	RemoteAddr: "remote",
	User:       "user",
	Status:     "status",
	Bytes:      "bytes",
	Referer:    "referer",
	UserAgent:  "user_agent",

	headerPrefix + forwardedFor: "x_forwarded_for",
}

const clfColumns = `remote ident user [time] "request" status bytes`

// envoyFields are those of the default text of Envoy, which has no peer address, and istioFields
// those of Istio.
var (
	envoyFields = map[Field]string{
		RemoteAddr: "x_forwarded_for",
		Status:     "response_code",
		Bytes:      "bytes_sent",
		Host:       "authority",
		UserAgent:  "user_agent",

		headerPrefix + forwardedFor:   "x_forwarded_for",
		headerPrefix + "x-request-id": "request_id",
	}
	istioFields = with(envoyFields, RemoteAddr, "x_forwarded_for downstream_remote_address")
)

// with returns a copy of fields with another value.
func with(fields map[Field]string, f Field, columns string) map[Field]string {
	changed := maps.Clone(fields)
	changed[f] = columns
	return changed
}

// cloudFrontColumns are the columns of CloudFront, for a part of a file without its header.
const cloudFrontColumns = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) " +
	"cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) " +
	"x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken " +
	"x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version " +
	"fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type " +
	"sc-content-type sc-content-len sc-range-start sc-range-end"

// lines are the formats with lines of text, each with its layouts.
var lines = map[Format][]*layout{
	Common: {{
		time:      "time",
		fields:    clfFields,
		request:   "request",
		columns:   clfColumns,
		least:     7,
		split:     (*row).splitCommon,
		mayBeHost: true,
	}},
	// The tenth column is that of the main format in the configuration of nginx.
	Combined: {{
		time:      "time",
		fields:    clfFields,
		request:   "request",
		columns:   clfColumns + ` "referer" "user_agent" "x_forwarded_for"`,
		least:     9,
		split:     (*row).splitCLF,
		mayBeHost: true,
	}},
	Traefik: {{
		time:    "time",
		fields:  clfFields,
		request: "request",
		columns: clfColumns + " referer user_agent count router server duration",
		least:   13,
		most:    true,
		split:   (*row).splitTraefik,
	}},
	Envoy: {
		{
			time:    "start_time",
			fields:  envoyFields,
			request: "request",
			columns: `[start_time] "request" response_code response_flags bytes_received ` +
				`bytes_sent duration upstream_service_time "x_forwarded_for" user_agent ` +
				`request_id authority upstream_host`,
			least: 13,
			most:  true,
			split: (*row).splitBracketed,
		},
		// The default of Istio. Its peer is the client if no proxy passed one on.
		{
			time:    "start_time",
			fields:  istioFields,
			request: "request",
			columns: `[start_time] "request" response_code response_flags ` +
				`response_code_details connection_termination_details ` +
				`"upstream_transport_failure_reason" bytes_received bytes_sent duration ` +
				`upstream_service_time "x_forwarded_for" "user_agent" "request_id" ` +
				`"authority" "upstream_host" upstream_cluster upstream_local_address ` +
				`downstream_local_address downstream_remote_address requested_server_name ` +
				`route_name`,
			least: 18,
			most:  true,
			split: (*row).splitBracketed,
		},
	},
	HAProxy: {{
		time: "accept_date",
		fields: map[Field]string{
			RemoteAddr: "client:port",
			Status:     "status",
			Bytes:      "bytes",
		},
		convert: map[Field]conversion{RemoteAddr: beforePort},
		request: "request",
		columns: `client:port accept_date frontend backend/server timers status bytes ` +
			`request_cookie response_cookie termination_state connections queues request ` +
			`request_headers response_headers`,
		least: 13,
		split: (*row).splitHAProxy,
	}},
	// Of a proxy host, and of the default site.
	NginxProxyManager: {
		managerLayout(`[time] upstream_cache_status upstream_status `, ` [sent_to]`),
		managerLayout(`[time] `, ``),
	},
	Logfmt: {{
		time:     objects[NginxJSON].time,
		fields:   objects[NginxJSON].fields,
		target:   objects[NginxJSON].target,
		request:  "request",
		prefixes: []string{"http_", ""},
		split:    (*row).splitLogfmt,
	}},
	ELB: {{
		time:    "time",
		fields:  elbFields,
		convert: map[Field]conversion{RemoteAddr: beforePort},
		request: "request",
		columns: `time elb client:port backend:port request_processing_time ` +
			`backend_processing_time response_processing_time elb_status_code ` +
			`backend_status_code received_bytes sent_bytes "request" "user_agent" ssl_cipher ` +
			`ssl_protocol`,
		least: 12,
		most:  true,
		split: (*row).splitSpaced,
	}},
	ALB: {{
		time:    "time",
		fields:  elbFields,
		convert: map[Field]conversion{RemoteAddr: beforePort},
		request: "request",
		columns: `type time elb client:port target:port request_processing_time ` +
			`target_processing_time response_processing_time elb_status_code ` +
			`target_status_code received_bytes sent_bytes "request" "user_agent" ssl_cipher ` +
			`ssl_protocol target_group_arn trace_id domain_name chosen_cert_arn ` +
			`matched_rule_priority request_creation_time actions_executed redirect_url ` +
			`error_reason target:port_list target_status_code_list classification ` +
			`classification_reason conn_trace_id`,
		least: 17, // those of the first version
		split: (*row).splitSpaced,
	}},
	W3C: {}, // the columns are those of its header, and their meaning that of CloudFront
	CloudFront: {{
		time: "timestamp(ms) timestamp time",
		fields: map[Field]string{
			RemoteAddr: "c-ip",
			Method:     "cs-method",
			Path:       "cs-uri-stem cs-uri",
			Query:      "cs-uri-query",
			Host:       "x-host-header cs(Host) cs-host",
			Status:     "sc-status",
			Bytes:      "sc-bytes",
			User:       "cs-username",
			UserAgent:  "cs(User-Agent)",
			Referer:    "cs(Referer)",

			headerPrefix + forwardedFor: forwardedFor,
		},
		convert: map[Field]conversion{
			User:      percentDecoded,
			UserAgent: percentDecoded,
			Referer:   percentDecoded,
		},
		columns: cloudFrontColumns,
		least:   12,
		split:   (*row).splitW3C,
	}},
}

// managerLayout returns a layout of nginx-proxy-manager, with the columns before the status and
// behind the ratio of gzip.
func managerLayout(before, behind string) *layout {
	l := &layout{
		time: "time",
		fields: map[Field]string{
			RemoteAddr: "client",
			Method:     "method",
			Host:       "host",
			Status:     "status",
			Bytes:      "length",
			UserAgent:  "user_agent",
			Referer:    "referer",
		},
		convert: map[Field]conversion{RemoteAddr: afterWord, Bytes: afterWord},
		target:  "uri",
		columns: before + `status dash method scheme host "uri" [client] [length] [gzip]` + behind +
			` "user_agent" "referer"`,
		most:  true,
		split: (*row).splitBracketed,
	}
	l.least = len(strings.Fields(l.columns))
	return l
}

// elbFields are those of the load balancers of AWS.
var elbFields = map[Field]string{
	RemoteAddr: "client:port",
	Status:     "elb_status_code",
	Bytes:      "sent_bytes",
	UserAgent:  "user_agent",
}

// objects are the formats with lines of JSON. Traces have units in place of bytes, so that --units
// bytes counts them.
var objects = map[Format]*layout{
	// a line of calls, or the header
	JSONL: {
		time:    "at_us",
		fields:  map[Field]string{Bytes: "n"},
		typical: [][]string{{"at_us"}, {"trace", "sample", "dropped"}},
	},
	NginxJSON: {
		time: "msec time_iso8601 time timestamp @timestamp ts time_local date datetime start_time " +
			"EdgeStartTimestamp EdgeEndTimestamp",
		fields: map[Field]string{
			RemoteAddr: "remote_addr client_ip remote_ip client_addr remote_address client ip " +
				"remote clientip fwd",
			Method:    "request_method method verb ClientRequestMethod",
			Query:     "args query_string query",
			Host:      "http_host host server_name vhost domain ClientRequestHost",
			Status:    "status status_code code response_code EdgeResponseStatus",
			Bytes:     "body_bytes_sent bytes_sent bytes size response_size EdgeResponseBytes",
			User:      "remote_user user user_id username",
			UserAgent: "http_user_agent user_agent agent useragent ClientRequestUserAgent",
			Referer:   "http_referer http_referrer referer referrer ClientRequestReferer",
		},
		target:   "request_uri uri path url ClientRequestURI ClientRequestPath",
		request:  "request",
		prefixes: []string{"http_", ""},
	},
	Caddy: {
		time: "ts",
		fields: map[Field]string{
			RemoteAddr: "request.client_ip request.remote_ip request.remote_addr",
			Method:     "request.method",
			Host:       "request.host",
			Status:     "status",
			Bytes:      "size",
			User:       "user_id",
			UserAgent:  "request.headers.User-Agent",
			Referer:    "request.headers.Referer",
		},
		target:   "request.uri",
		needs:    "request",
		prefixes: []string{"request.headers."},
	},
	Traefik: {
		time: "StartUTC StartLocal time",
		fields: map[Field]string{
			RemoteAddr: "ClientHost ClientAddr",
			Method:     "RequestMethod",
			Host:       "RequestHost RequestAddr",
			Status:     "DownstreamStatus OriginStatus",
			Bytes:      "DownstreamContentSize OriginContentSize",
			User:       "ClientUsername",
			UserAgent:  "request_User-Agent",
			Referer:    "request_Referer",
		},
		target:   "RequestPath",
		prefixes: []string{"request_", ""},
		typical:  [][]string{{"ClientHost ClientAddr DownstreamStatus StartUTC"}},
	},
	Envoy: {
		time: "start_time timestamp time",
		fields: map[Field]string{
			RemoteAddr: "downstream_remote_address downstream_remote_address_without_port " +
				"downstream_direct_remote_address x_forwarded_for",
			Method:    "method request_method :method",
			Host:      "authority :authority host",
			Status:    "response_code status",
			Bytes:     "bytes_sent",
			User:      "user",
			UserAgent: "user_agent",
			Referer:   "referer",
		},
		target:   "path x_envoy_original_path x_envoy_origin_path :path",
		prefixes: []string{""},
		typical: [][]string{
			{
				"start_time",
				"response_code authority :authority x_forwarded_for",
			},
			{
				"start_time timestamp time",
				"response_flags downstream_remote_address downstream_remote_address_without_port",
			},
		},
	},
}

// schema is a layout of the lines of one file, with the names that Options.Fields maps.
type schema struct {
	*layout
	from    map[Field][]place // the places of all facts, and of fields of the header
	time    []place           // the places of the instant
	isTrace bool              // the time is in microseconds, and a line without units has one
	zone    *time.Location    // the zone of times without one; nil = they are errors

	zoneless int // the index in timeLayouts of the last time without a zone; 0 = none

	// The text of the last time, and the instant that it stands for. Many lines have the same second.
	lastTime       []byte
	lastInstant    int64
	lastIsZoneless bool

	readers []reader // the readers of the fields of each entry

	// For lines of text:
	columns  []string // the names of the columns; nil for JSON and logfmt
	quoted   []int    // the columns between quotes
	brackets []int    // the columns between brackets
	status   int      // the column of the status; -1 = none
	date     []place  // the column with the date, if another one has the time of day; nil = none
	isExact  bool     // a header in the file names the columns
}

// place is a column, or a member of an object by its dotted path, that may have a fact.
type place struct {
	path    string
	column  int // the index of the column; -1 = there is no such column
	convert conversion
}

// place returns the place with a path, or a column with that name.
func (s *schema) place(convert conversion, path string) place {
	isNamed := func(column string) bool { return sameName([]byte(column), path) }
	return place{path: path, column: slices.IndexFunc(s.columns, isNamed), convert: convert}
}

// places returns the places of paths with spaces between them.
func (s *schema) places(convert conversion, paths string) (all []place) {
	for _, path := range strings.Fields(paths) {
		all = append(all, s.place(convert, path))
	}
	return all
}

// The conversions to facts: of the fields, of the target and of the request line of a layout.
var (
	fieldConversions   = map[Field]conversion{RemoteAddr: lastAddress, Path: pathOf}
	targetConversions  = map[Field]conversion{Path: pathOf, Query: queryOf}
	requestConversions = map[Field]conversion{
		Method: requestMethod,
		Path:   requestPath,
		Query:  requestQuery,
		Host:   requestHost,
	}
)

// newSchema returns the schema of a layout, or nil without one. If Options.Fields maps a fact to a
// name that the format does not have, the fact has no value.
func newSchema(l *layout, o Options) *schema {
	if l == nil {
		return nil
	}
	own := *l // a copy, because w3cSchema changes it
	s := &schema{
		layout:  &own,
		from:    map[Field][]place{},
		isTrace: l == objects[JSONL],
		zone:    o.Zone,
	}
	s.readColumns()
	s.time = s.places(nil, l.time)
	for _, f := range facts {
		convert, isOwn := l.convert[f]
		if !isOwn {
			convert = fieldConversions[f]
		}
		from := s.places(convert, l.fields[f])
		if convert := targetConversions[f]; convert != nil {
			from = append(from, s.places(convert, l.target)...)
		}
		if convert := requestConversions[f]; convert != nil {
			from = append(from, s.places(convert, l.request)...)
		}
		if name := o.Fields[string(f)]; name != "" {
			from = []place{s.place(fieldConversions[f], name)}
		}
		s.from[f] = from
	}
	if name := o.Fields["time"]; name != "" {
		s.time = []place{s.place(nil, name)}
	}
	if l.split == nil {
		return s
	}
	s.from[headerPrefix+"user-agent"] = s.from[UserAgent]
	s.from[headerPrefix+"referer"] = s.from[Referer]
	for f, column := range l.fields {
		if strings.HasPrefix(string(f), headerPrefix) {
			s.from[f] = s.places(nil, column)
		}
	}
	return s
}

// readColumns sets the fields for lines of text by the columns of the layout.
func (s *schema) readColumns() {
	for i, name := range strings.Fields(s.layout.columns) {
		switch name[0] {
		case '"':
			s.quoted = append(s.quoted, i)
		case '[':
			s.brackets = append(s.brackets, i)
		}
		s.columns = append(s.columns, strings.Trim(name, `"[]`))
	}
	s.status = slices.Index(s.columns, s.layout.fields[Status])
}

// fieldsHeader begins the line of a W3C log that names its columns.
const fieldsHeader = "#Fields:"

// w3cSchema returns the schema of a W3C log with these columns. isExact reports that a header in the
// file names them.
func w3cSchema(o Options, columns string, isExact bool) *schema {
	l := *lines[CloudFront][0]
	l.columns = columns
	s := newSchema(&l, o)
	s.isExact = isExact
	if isExact {
		s.least = len(s.columns)
		s.most = true
	}
	for _, name := range s.columns {
		inner, isOpen := strings.CutPrefix(name, "cs(")
		inner, isClosed := strings.CutSuffix(inner, ")")
		if isOpen && isClosed {
			s.from[Field(headerPrefix+strings.ToLower(inner))] = s.places(nil, name)
		}
	}
	isTimestamp := func(column string) bool {
		return column == "timestamp(ms)" || column == "timestamp"
	}
	if o.Fields["time"] == "" && !slices.ContainsFunc(s.columns, isTimestamp) {
		s.date = s.places(nil, "date")
	}
	return s
}

// reader returns the value of a field in a line, or nil.
type reader func(r *row) []byte

// readersOf returns the readers of fields. They are made in the first call, because each call has the
// same fields.
func (s *schema) readersOf(fields []Field) []reader {
	if len(s.readers) != len(fields) {
		s.readers = nil
		for _, f := range fields {
			s.readers = append(s.readers, s.reader(f))
		}
	}
	return s.readers
}

// get returns the value of a field, or nil.
func (r *row) get(f Field) []byte { return r.schema.reader(f)(r) }

// reader returns the reader of a field.
func (s *schema) reader(f Field) reader {
	from, isFact := s.from[f]
	name, isHeader := strings.CutPrefix(string(f), headerPrefix)
	switch {
	case s.isTrace && f == Bytes:
		return func(r *row) []byte {
			if b := r.firstOf(from); b != nil {
				return b
			}
			return []byte("1")
		}
	case isFact:
		return func(r *row) []byte { return r.firstOf(from) }
	case isHeader:
		return s.headerReader(name)
	case f == Forwarded:
		return s.forwardedReader()
	}
	own := s.place(nil, name)
	return func(r *row) []byte { return r.at(own) }
}

// forwardedReader returns the reader of X-Forwarded-For. If the line has none, it reads the list of
// addresses that Traefik, for example, logs in place of the client address.
func (s *schema) forwardedReader() reader {
	header := s.reader(headerPrefix + forwardedFor)
	var clients []place // without a conversion to the last address
	for _, p := range s.from[RemoteAddr] {
		clients = append(clients, s.place(nil, p.path))
	}
	return func(r *row) []byte {
		if list := header(r); hasValue(list) {
			return list
		}
		for _, p := range clients {
			list := r.at(p)
			switch {
			case len(list) == 0:
				continue
			case bytes.IndexByte(list, ',') < 0:
				return nil
			}
			return list
		}
		return nil
	}
}

// headerReader returns the reader of a field of the request's header from JSON. The elements of
// X-Forwarded-For are joined by commas, as HTTP joins several lines of one field.
func (s *schema) headerReader(name string) reader {
	var paths []string
	for _, prefix := range s.prefixes {
		paths = append(paths, prefix+name)
	}
	return func(r *row) (value []byte) {
		for _, path := range paths {
			i := r.find(path)
			if i < 0 {
				continue
			}
			value = r.values[i].text
			for _, next := range r.values[i+1:] {
				if name != forwardedFor || !bytes.Equal(next.path, r.values[i].path) {
					break
				}
				value = slices.Concat(value, []byte(","), next.text)
			}
			return value
		}
		return nil
	}
}

// firstOf returns the value of the first place that has one. If no place has a value, it returns the
// - or the empty text of the last one.
func (r *row) firstOf(all []place) (b []byte) {
	for _, p := range all {
		if next := r.at(p); hasValue(next) || len(b) == 0 {
			b = next
		}
		if hasValue(b) {
			break
		}
	}
	return b
}

// at returns the value of a place, or nil.
func (r *row) at(p place) []byte {
	i := p.column
	if r.schema.columns == nil {
		i = r.find(p.path)
	}
	if i < 0 || i >= len(r.values) {
		return nil
	}
	if p.convert == nil {
		return r.values[i].text
	}
	return p.convert(r, r.values[i].text)
}

const (
	errTimeName = problem("the format has no column with the time, " +
		"or none with the name that time=NAME maps")
	errNoTime = problem("the object has no time; map the name of its member with time=NAME")
)

// readInstant sets the instant of a line.
func (r *row) readInstant() (err error) {
	s := r.schema
	b := r.firstOf(s.time)
	isColumn := func(p place) bool { return p.column >= 0 }
	switch {
	case len(b) == 0 && s.columns == nil:
		return errNoTime
	case len(b) == 0 && !slices.ContainsFunc(s.time, isColumn):
		return errTimeName
	case len(b) == 0:
		return errColumns
	case s.isTrace:
		r.instant, err = traceInstant(b)
		return err
	case s.date != nil:
		date := r.at(s.date[0])
		r.scratch = append(append(r.scratch, date...), 'T')
		r.scratch = append(append(r.scratch, b...), 'Z')
		b = r.scratch
	}
	b = bytes.TrimSpace(b)
	if len(b) > 0 && bytes.Equal(b, s.lastTime) {
		r.instant = s.lastInstant
		r.isZoneless = s.lastIsZoneless
		return nil
	}
	err = r.parseTime(b)
	if err != nil || r.instant < year1990 {
		if other := r.otherTime(); other != nil {
			b = other
			err = nil
		}
	}
	if err != nil {
		return err
	}
	s.lastTime = append(s.lastTime[:0], b...)
	s.lastInstant = r.instant
	s.lastIsZoneless = r.isZoneless
	return nil
}

// otherTime sets the instant of an object by the first member with a plausible time, and returns its
// text. It is called if the first member of schema.time has none: a member with the name time may be
// a duration. It returns nil if no member has one, and for lines of text.
func (r *row) otherTime() []byte {
	s := r.schema
	if s.columns != nil {
		return nil
	}
	best := r.instant
	wasZoneless := r.isZoneless
	for _, p := range s.time {
		b := bytes.TrimSpace(r.at(p))
		if len(b) > 0 && r.parseTime(b) == nil && r.instant >= year1990 {
			return b
		}
	}
	r.instant = best
	r.isZoneless = wasZoneless
	return nil
}

// parseTime sets the instant of a line by the text of its time.
func (r *row) parseTime(b []byte) (err error) {
	s := r.schema
	r.isZoneless = false
	// the notation of the line before is the first, because errors of time.Parse take memory
	if s.zoneless > 0 && r.parseLocal(b, s.zoneless) == nil {
		return nil
	}
	r.instant, err = parseInstant(b)
	for i := noZone; err == errNoZone && s.zone != nil && i < len(timeLayouts); i++ {
		if r.parseLocal(b, i) == nil {
			s.zoneless = i
			return nil
		}
	}
	return err
}

// parseLocal sets the instant of a line by a time without a zone, in one of timeLayouts.
//
// When a clock is set back at the end of summer time, it shows an hour twice. The line belongs to the
// second one if it would otherwise be more than ten minutes earlier than the line before. Few lines
// are so late, because few requests take so long.
func (r *row) parseLocal(b []byte, layout int) error {
	s := r.schema
	at, err := parseInstantIn(b, timeLayouts[layout], s.zone)
	if err != nil {
		return err
	}
	if s.zone != time.UTC {
		first, second := findRepeated(time.UnixMicro(at).In(s.zone))
		at = first.UnixMicro()
		if s.lastInstant-at > second.Sub(first).Microseconds()/6 {
			at = second.UnixMicro()
		}
	}
	r.instant = at
	r.isZoneless = true
	return nil
}

// findRepeated returns the two instants at which a clock in the zone of t shows its local time. They
// are equal unless the clock is set back shortly before or after t.
func findRepeated(t time.Time) (first, second time.Time) {
	from, to := t.ZoneBounds()
	_, offset := t.Zone()
	if !to.IsZero() {
		_, next := to.Zone()
		again := t.Add(time.Duration(offset-next) * time.Second)
		if again.After(t) && !again.Before(to) {
			return t, again
		}
	}
	if !from.IsZero() {
		_, before := from.Add(-1).Zone()
		earlier := t.Add(time.Duration(offset-before) * time.Second)
		if earlier.Before(t) && earlier.Before(from) {
			return earlier, t
		}
	}
	return t, t
}
