package accesslog

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
)

// layout describes the lines of a format: the columns or the members that have each field,
// with spaces between them. The first with a value counts. Members have dotted paths.
type layout struct {
	time    string           // the instant, the best first
	fields  map[Field]string // for a text also fields of the request's header
	target  string           // targets of requests; their parts are the path and the query
	request string           // a request line; its parts are the method, the target and the host
	how     map[Field]how    // from the places of fields, where it is not that of fieldHow

	// columns are those of a text, as the format's documentation has them, between quotes or
	// brackets as the line has them; "" = JSON.
	columns   string
	least     int                          // the least number of columns
	most      bool                         // there are no further columns
	mayBeHost bool                         // the client may be a host name; quotes show the format
	split     func(r *row, b []byte) error // splits a line into columns

	// prefixes begin the names of header fields in JSON, such as http_.
	prefixes []string

	// needs is an object of every entry of JSON; "" = none.
	needs string

	// typical has lists of members, in each text those of which an object has one. An object of
	// this format fulfils one of the lists; nil = any object does.
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
		most:      true,
		split:     (*row).splitCLF,
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
			split: (*row).splitSpaced,
		},
		// The default of Istio, whose peer is the client if no proxy passed one on.
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
			split: (*row).splitSpaced,
		},
	},
	HAProxy: {{
		time: "accept_date",
		fields: map[Field]string{
			RemoteAddr: "client:port",
			Status:     "status",
			Bytes:      "bytes",
		},
		how:     map[Field]how{RemoteAddr: beforePort},
		request: "request",
		columns: `client:port accept_date frontend backend/server timers status bytes ` +
			`request_cookie response_cookie termination_state connections queues request ` +
			`request_headers response_headers`,
		least: 13,
		split: (*row).splitHAProxy,
	}},
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
		how:     map[Field]how{RemoteAddr: beforePort},
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
		how:     map[Field]how{RemoteAddr: beforePort},
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
		how: map[Field]how{
			User:      percentDecoded,
			UserAgent: percentDecoded,
			Referer:   percentDecoded,
		},
		columns: cloudFrontColumns,
		least:   12,
		split:   (*row).splitW3C,
	}},
}

// elbFields are those of the load balancers of AWS.
var elbFields = map[Field]string{
	RemoteAddr: "client:port",
	Status:     "elb_status_code",
	Bytes:      "sent_bytes",
	UserAgent:  "user_agent",
}

// objects are the formats with lines of JSON. The units of a trace are its bytes.
var objects = map[Format]*layout{
	// a line of calls, or the header
	JSONL: {
		time:    "at_us",
		fields:  map[Field]string{Bytes: "n"},
		typical: [][]string{{"at_us"}, {"trace", "sample", "dropped"}},
	},
	NginxJSON: {
		time: "msec time_iso8601 time timestamp @timestamp ts time_local date datetime start_time",
		fields: map[Field]string{
			RemoteAddr: "remote_addr client_ip remote_ip client_addr remote_address client ip " +
				"remote clientip fwd",
			Method:    "request_method method verb",
			Query:     "args query_string query",
			Host:      "http_host host server_name vhost domain",
			Status:    "status status_code code response_code",
			Bytes:     "body_bytes_sent bytes_sent bytes size response_size",
			User:      "remote_user user user_id username",
			UserAgent: "http_user_agent user_agent agent useragent",
			Referer:   "http_referer http_referrer referer referrer",
		},
		target:   "request_uri uri path url",
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

// schema is the places of the facts in the lines of a file.
type schema struct {
	*layout
	from    map[Field][]place // for all facts
	time    []place
	isTrace bool           // the time is in microseconds, and a line without units has one
	zone    *time.Location // that of times without one; nil = they are errors

	zoneless int // the layout of the last time without a zone; 0 = none

	// Of a text:
	columns  []string // nil for JSON
	quoted   []int    // columns between quotes
	brackets []int    // columns between brackets
	status   int      // the column of the status
	date     string   // the column with the date of a time; "" = none
	isExact  bool     // a header in the file names the columns
}

// place is a column or the dotted path of a member, and the way from its text to a fact.
type place struct {
	path string
	how  how
}

// places returns the places of paths with spaces between them.
func places(h how, paths string) (all []place) {
	for _, path := range strings.Fields(paths) {
		all = append(all, place{path, h})
	}
	return all
}

// The ways from the places of a layout to facts.
var (
	fieldHow   = map[Field]how{RemoteAddr: lastAddress, Path: pathOf}
	targetHow  = map[Field]how{Path: pathOf, Query: queryOf}
	requestHow = map[Field]how{
		Method: requestMethod,
		Path:   requestPath,
		Query:  requestQuery,
		Host:   requestHost,
	}
)

// newSchema returns the schema of a layout with the places of Options.Fields; nil without a
// layout. A name that the format does not have leaves the fact without a value.
func newSchema(l *layout, o Options) *schema {
	if l == nil {
		return nil
	}
	own := *l // w3cSchema changes it
	s := &schema{
		layout:  &own,
		time:    places(nil, l.time),
		from:    map[Field][]place{},
		isTrace: l == objects[JSONL],
		zone:    o.Zone,
	}
	for _, f := range facts {
		way, isOwn := l.how[f]
		if !isOwn {
			way = fieldHow[f]
		}
		from := places(way, l.fields[f])
		if h := targetHow[f]; h != nil {
			from = append(from, places(h, l.target)...)
		}
		if h := requestHow[f]; h != nil {
			from = append(from, places(h, l.request)...)
		}
		if name := o.Fields[string(f)]; name != "" {
			from = []place{{name, fieldHow[f]}}
		}
		s.from[f] = from
	}
	if name := o.Fields["time"]; name != "" {
		s.time = []place{{name, nil}}
	}
	if l.split == nil {
		return s
	}
	s.from[headerPrefix+"user-agent"] = s.from[UserAgent]
	s.from[headerPrefix+"referer"] = s.from[Referer]
	for f, column := range l.fields {
		if strings.HasPrefix(string(f), headerPrefix) {
			s.from[f] = places(nil, column)
		}
	}
	for i, name := range strings.Fields(l.columns) {
		switch name[0] {
		case '"':
			s.quoted = append(s.quoted, i)
		case '[':
			s.brackets = append(s.brackets, i)
		}
		s.columns = append(s.columns, strings.Trim(name, `"[]`))
	}
	s.status = slices.Index(s.columns, l.fields[Status])
	return s
}

// fieldsHeader begins the line of a W3C log that names its columns.
const fieldsHeader = "#Fields:"

// w3cSchema returns the schema of columns. isExact reports that a header in the file names them.
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
			s.from[Field(headerPrefix+strings.ToLower(inner))] = places(nil, name)
		}
	}
	isTimestamp := func(column string) bool {
		return column == "timestamp(ms)" || column == "timestamp"
	}
	if o.Fields["time"] == "" && !slices.ContainsFunc(s.columns, isTimestamp) {
		s.date = "date"
	}
	return s
}

// get returns the value of a field, or nil.
func (r *row) get(f Field) []byte {
	if from, isFact := r.schema.from[f]; isFact {
		b := r.firstOf(from)
		if b == nil && r.schema.isTrace && f == Bytes {
			return []byte("1")
		}
		return b
	}
	name, isHeader := strings.CutPrefix(string(f), headerPrefix)
	switch {
	case isHeader:
		return r.header(name)
	case f == Forwarded:
		return r.forwarded()
	}
	return r.at(place{path: name})
}

// forwarded returns X-Forwarded-For, or a list in place of the client address, as Traefik
// logs it.
func (r *row) forwarded() (list []byte) {
	if list = r.get(headerPrefix + forwardedFor); hasValue(list) {
		return list
	}
	list = nil
	for _, p := range r.schema.from[RemoteAddr] {
		if len(list) == 0 {
			list = r.at(place{path: p.path})
		}
	}
	if bytes.IndexByte(list, ',') < 0 {
		return nil
	}
	return list
}

// header returns a field of the request's header from JSON. The elements of X-Forwarded-For are
// joined by commas, as HTTP joins several lines of one field.
func (r *row) header(name string) (value []byte) {
	for _, prefix := range r.schema.prefixes {
		i := r.find(prefix + name)
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

// firstOf returns the value of the first place that has one. A lone - is a value if no place
// has another.
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
	i := slices.Index(r.schema.columns, p.path)
	if r.schema.columns == nil {
		i = r.find(p.path)
	}
	if i < 0 || i >= len(r.values) {
		return nil
	}
	if p.how == nil {
		return r.values[i].text
	}
	return p.how(r, r.values[i].text)
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
	isColumn := func(p place) bool { return slices.Contains(s.columns, p.path) }
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
	case s.date != "":
		date := r.at(place{path: s.date})
		r.scratch = append(append(r.scratch, date...), 'T')
		r.scratch = append(append(r.scratch, b...), 'Z')
		b = r.scratch
	}
	b = bytes.TrimSpace(b)
	if s.zoneless > 0 { // try the notation of the line before: errors of time.Parse take memory
		if r.instant, err = parseInstantIn(b, layouts[s.zoneless], s.zone); err == nil {
			r.isZoneless = true
			return nil
		}
	}
	r.instant, err = parseInstant(b)
	for i := noZone; err == errNoZone && s.zone != nil && i < len(layouts); i++ {
		if at, err := parseInstantIn(b, layouts[i], s.zone); err == nil {
			r.instant = at
			r.isZoneless = true
			s.zoneless = i
			return nil
		}
	}
	return err
}
