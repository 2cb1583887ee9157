package accesslog

import (
	"bytes"
	"slices"
	"strings"
)

// schema is the places of the facts in the lines of a format.
type schema struct {
	from    map[Field][]place // of all facts; the first place with a value counts
	time    []place           // places of the instant, the best first
	isTrace bool              // the time is in microseconds, and a line without units has one

	// Of a text:
	columns []string           // as the format's documentation has them; nil for JSON
	date    string             // the column with the date of a time; "" = none
	headers map[string]string  // columns with fields of the request's header, by name in lower case
	isExact bool               // a header in the file names the columns
	split   func(r *row) error // splits a line into columns

	// Of JSON:
	prefixes []string // names of header fields begin with them, such as http_
	needs    string   // an object of every entry; "" = none
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

// sources are the places of facts while a schema is made.
type sources map[Field][]place

// request adds the parts of a request line at a path.
func (s sources) request(line string) sources {
	for f, h := range map[Field]how{Method: requestMethod, Path: requestPath, Query: requestQuery, Host: requestHost} {
		s[f] = append(s[f], place{line, h})
	}
	return s
}

// target adds the parts of the targets of requests.
func (s sources) target(paths string) sources {
	s[Path] = append(s[Path], places(pathOf, paths)...)
	s[Query] = append(s[Query], places(queryOf, paths)...)
	return s
}

// newSchema returns a schema with the places of Options.Fields. A name that the format does
// not have leaves the fact without a value.
func newSchema(o Options, time string, from sources) *schema {
	s := &schema{time: places(plain, time), from: map[Field][]place{}}
	for _, f := range facts {
		s.from[f] = from[f]
		if name := o.Fields[string(f)]; name != "" {
			s.from[f] = []place{{name, map[Field]how{RemoteAddr: lastAddress, Path: pathOf}[f]}}
		}
	}
	if name := o.Fields["time"]; name != "" {
		s.time = []place{{name, plain}}
	}
	return s
}

// text makes s the schema of a text.
func (s *schema) text(columns string, split func(*row) error, headers map[string]string) *schema {
	s.columns, s.split, s.headers = strings.Fields(columns), split, headers
	return s
}

// object makes s the schema of JSON.
func (s *schema) object(needs string, prefixes ...string) *schema {
	s.needs, s.prefixes = needs, prefixes
	return s
}

// schemasOf returns the schemas of a format: of lines of text and of lines of JSON, each nil
// if there are none.
func schemasOf(f Format, o Options) (text, json *schema) {
	switch f {
	case Combined:
		// The tenth column is that of the main format in the configuration of nginx.
		return clf(o).text(clfColumns+" referer user_agent x_forwarded_for", (*row).combined, map[string]string{forwardedFor: "x_forwarded_for"}), nil
	case Common:
		return clf(o).text(clfColumns, (*row).common, nil), nil
	case Traefik:
		return clf(o).text(clfColumns+" referer user_agent count router server duration", (*row).traefik, nil), traefikJSON(o)
	case Envoy:
		return envoyText(o), envoyJSON(o)
	case ALB:
		return albText(o), nil
	case CloudFront:
		return w3c(o, cloudFrontColumns, false), nil
	case JSONL:
		return nil, traceJSON(o)
	case Caddy:
		return nil, caddyJSON(o)
	}
	return nil, nginxJSON(o)
}

const clfColumns = "remote ident user time request status bytes"

// clf returns the schema of the common log format and its relatives.
func clf(o Options) *schema {
	return newSchema(o, "time", sources{
		RemoteAddr: places(lastAddress, "remote"), User: places(plain, "user"), Status: places(plain, "status"), Bytes: places(plain, "bytes"),
		Referer: places(plain, "referer"), UserAgent: places(plain, "user_agent"),
	}.request("request"))
}

func envoyText(o Options) *schema {
	return newSchema(o, "start_time", sources{
		RemoteAddr: places(lastAddress, "x_forwarded_for"), Status: places(plain, "response_code"), Bytes: places(plain, "bytes_sent"),
		Host: places(plain, "authority"), UserAgent: places(plain, "user_agent"),
	}.request("request")).text("start_time request response_code response_flags bytes_received bytes_sent duration upstream_service_time x_forwarded_for user_agent request_id authority upstream_host",
		(*row).envoy, map[string]string{forwardedFor: "x_forwarded_for", "x-request-id": "request_id"})
}

func albText(o Options) *schema {
	return newSchema(o, "time", sources{
		RemoteAddr: places(beforePort, "client:port"), Status: places(plain, "elb_status_code"), Bytes: places(plain, "sent_bytes"),
		UserAgent: places(plain, "user_agent"),
	}.request("request")).text("type time elb client:port target:port request_processing_time target_processing_time response_processing_time elb_status_code target_status_code received_bytes sent_bytes request user_agent ssl_cipher ssl_protocol target_group_arn trace_id domain_name chosen_cert_arn matched_rule_priority request_creation_time actions_executed redirect_url error_reason target:port_list target_status_code_list classification classification_reason conn_trace_id",
		(*row).alb, nil)
}

// fieldsHeader begins the line of a W3C log that names its columns.
const fieldsHeader = "#Fields:"

// cloudFrontColumns are the columns of CloudFront, for a part of a file without its header.
const cloudFrontColumns = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end"

// w3c returns the schema of columns. isExact reports that a header in the file names them.
func w3c(o Options, columns string, isExact bool) *schema {
	s := newSchema(o, "timestamp(ms) timestamp time", sources{
		RemoteAddr: places(lastAddress, "c-ip"), Method: places(plain, "cs-method"), Path: places(pathOf, "cs-uri-stem cs-uri"),
		Query: places(plain, "cs-uri-query"), Host: places(plain, "x-host-header cs(Host) cs-host"), Status: places(plain, "sc-status"),
		Bytes: places(plain, "sc-bytes"), User: places(percent, "cs-username"), UserAgent: places(percent, "cs(User-Agent)"),
		Referer: places(percent, "cs(Referer)"),
	}).text(columns, (*row).w3c, map[string]string{forwardedFor: forwardedFor})
	s.isExact = isExact
	for _, name := range s.columns {
		if inner, ok := strings.CutPrefix(name, "cs("); ok && strings.HasSuffix(inner, ")") {
			s.headers[strings.ToLower(inner[:len(inner)-1])] = name
		}
	}
	if o.Fields["time"] == "" && !slices.Contains(s.columns, "timestamp(ms)") && !slices.Contains(s.columns, "timestamp") {
		s.date = "date"
	}
	return s
}

// traceJSON is the members of a line of a trace of package replay. The dimensions of its
// key have dotted names, such as key.ip, and its units are the bytes.
func traceJSON(o Options) *schema {
	s := newSchema(o, "at_us", sources{Bytes: places(plain, "n")})
	s.isTrace = true
	return s
}

func nginxJSON(o Options) *schema {
	return newSchema(o, "msec time_iso8601 time timestamp @timestamp ts time_local date datetime start_time", sources{
		RemoteAddr: places(lastAddress, "remote_addr client_ip remote_ip client_addr remote_address client ip remote clientip"),
		Method:     places(plain, "request_method method verb"),
		Query:      places(plain, "args query_string query"),
		Host:       places(plain, "http_host host server_name vhost domain"),
		Status:     places(plain, "status status_code code response_code"),
		Bytes:      places(plain, "body_bytes_sent bytes_sent bytes size response_size"),
		User:       places(plain, "remote_user user user_id username"),
		UserAgent:  places(plain, "http_user_agent user_agent agent useragent"),
		Referer:    places(plain, "http_referer http_referrer referer referrer"),
	}.target("request_uri uri path url").request("request")).object("", "http_", "")
}

func caddyJSON(o Options) *schema {
	return newSchema(o, "ts", sources{
		RemoteAddr: places(lastAddress, "request.client_ip request.remote_ip request.remote_addr"),
		Method:     places(plain, "request.method"),
		Host:       places(plain, "request.host"),
		Status:     places(plain, "status"),
		Bytes:      places(plain, "size"),
		User:       places(plain, "user_id"),
		UserAgent:  places(plain, "request.headers.User-Agent"),
		Referer:    places(plain, "request.headers.Referer"),
	}.target("request.uri")).object("request", "request.headers.")
}

func traefikJSON(o Options) *schema {
	return newSchema(o, "StartUTC StartLocal time", sources{
		RemoteAddr: places(lastAddress, "ClientHost ClientAddr"),
		Method:     places(plain, "RequestMethod"),
		Host:       places(plain, "RequestHost RequestAddr"),
		Status:     places(plain, "DownstreamStatus OriginStatus"),
		Bytes:      places(plain, "DownstreamContentSize OriginContentSize"),
		User:       places(plain, "ClientUsername"),
		UserAgent:  places(plain, "request_User-Agent"),
		Referer:    places(plain, "request_Referer"),
	}.target("RequestPath")).object("", "request_", "")
}

func envoyJSON(o Options) *schema {
	return newSchema(o, "start_time timestamp time", sources{
		RemoteAddr: places(lastAddress, "downstream_remote_address downstream_remote_address_without_port downstream_direct_remote_address x_forwarded_for"),
		Method:     places(plain, "method request_method :method"),
		Host:       places(plain, "authority :authority host"),
		Status:     places(plain, "response_code status"),
		Bytes:      places(plain, "bytes_sent"),
		User:       places(plain, "user"),
		UserAgent:  places(plain, "user_agent"),
		Referer:    places(plain, "referer"),
	}.target("path x_envoy_original_path x_envoy_origin_path :path")).object("", "")
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

// forwardedFor is the header that lists the addresses of a client and of proxies.
const forwardedFor = "x-forwarded-for"

// forwarded returns X-Forwarded-For, or a list in place of the client address, as Traefik
// logs it.
func (r *row) forwarded() (list []byte) {
	if list = r.header(forwardedFor); hasValue(list) {
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

// header returns a field of the request's header. The elements of X-Forwarded-For in JSON are
// joined by commas, as HTTP joins several lines of one field.
func (r *row) header(name string) (value []byte) {
	s := r.schema
	switch {
	case s.columns == nil:
	case s.headers[name] != "":
		return r.at(place{path: s.headers[name]})
	case name == "user-agent":
		return r.firstOf(s.from[UserAgent])
	case name == "referer":
		return r.firstOf(s.from[Referer])
	}
	for _, prefix := range s.prefixes {
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

// firstOf returns the value of the first place that has one.
func (r *row) firstOf(all []place) []byte {
	for _, p := range all {
		if b := r.at(p); len(b) > 0 {
			return b
		}
	}
	return nil
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
	return r.derive(r.values[i].text, p.how)
}

const (
	errTimeName = problem("the format has no column with the time, or none with the name that time=NAME maps")
	errNoTime   = problem("the object has no time; map the name of its member with time=NAME")
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
	r.instant, err = parseInstant(bytes.TrimSpace(b))
	return err
}
