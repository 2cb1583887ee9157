package accesslog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Field names a fact about a request. It is comparable; the zero Field is no field.
type Field struct {
	fact fact
	name string // for header and own: lower case
}

// fact is the kind of a field.
type fact uint8

const (
	none fact = iota
	remoteAddr
	method
	path
	query
	host
	status
	size
	user
	userAgent
	referer
	header // a field of the request's header, by name
	own    // a column or member by the log's own name
	forwarded
	facts = header
)

// factNames are the names of the facts.
var factNames = [facts]string{remoteAddr: "remote_addr", method: "method", path: "path", query: "query", host: "host",
	status: "status", size: "bytes", user: "user", userAgent: "user_agent", referer: "referer"}

// The fields that every format has, as far as the log has them.
var (
	RemoteAddr = Field{fact: remoteAddr} // the client address without port
	Method     = Field{fact: method}
	Path       = Field{fact: path}  // without the query
	Query      = Field{fact: query} // without ?
	Host       = Field{fact: host}
	Status     = Field{fact: status}
	Bytes      = Field{fact: size} // size of the response
	User       = Field{fact: user}
	UserAgent  = Field{fact: userAgent}
	Referer    = Field{fact: referer}

	// Forwarded has the addresses from the client to the proxies, with commas between them:
	// X-Forwarded-For, or a list in place of the client address.
	Forwarded = Field{fact: forwarded}
)

const headerPrefix = "header:"

// ParseField returns the field with a name: one of FieldNames, header:NAME, or the log's
// own name of a column or member. The error is that of an empty name.
func ParseField(name string) (Field, error) {
	if named, ok := strings.CutPrefix(name, headerPrefix); ok {
		if named == "" {
			return Field{}, errors.New("header: needs the name of a header field, such as header:X-User")
		}
		return Field{header, strings.ToLower(named)}, nil
	}
	if name == "" {
		return Field{}, fmt.Errorf("the name of a field is empty; use %s, header:NAME or the log's own name", strings.Join(FieldNames(), ", "))
	}
	if i := slices.Index(factNames[:], name); i > 0 {
		return Field{fact: fact(i)}, nil
	}
	return Field{own, name}, nil
}

// FieldNames returns the names of the fields that do not depend on a format.
func FieldNames() []string { return slices.Clone(factNames[1:]) }

// String returns the name that ParseField reads.
func (f Field) String() string {
	switch {
	case f.fact == header:
		return headerPrefix + f.name
	case f.fact == own:
		return f.name
	}
	return factNames[f.fact]
}
