package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Field names a fact about a request: one of the constants, header:NAME in lower case, or the
// log's own name of a column or member. "" is no field.
type Field string

// The fields that every format has, as far as the log has them.
const (
	RemoteAddr Field = "remote_addr" // the client address without port
	Method     Field = "method"
	Path       Field = "path"  // without the query
	Query      Field = "query" // without ?
	Host       Field = "host"
	Status     Field = "status"
	Bytes      Field = "bytes" // size of the response
	User       Field = "user"
	UserAgent  Field = "user_agent"
	Referer    Field = "referer"

	// Forwarded has the addresses from the client to the proxies, with commas between them:
	// X-Forwarded-For, or a list in place of the client address.
	Forwarded Field = "forwarded:"
)

// facts are the fields of every format, except Forwarded.
var facts = []Field{RemoteAddr, Method, Path, Query, Host, Status, Bytes, User, UserAgent, Referer}

const headerPrefix = "header:"

// ParseField returns the field with a name: one of FieldNames, header:NAME, or the log's
// own name of a column or member. The error is that of an empty name.
func ParseField(name string) (Field, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("the name of a field is empty; "+
			"use %s, header:NAME or the log's own name", strings.Join(FieldNames(), ", "))
	case name == headerPrefix:
		return "", errors.New("header: needs the name of a header field, such as header:X-User")
	case strings.HasPrefix(name, headerPrefix):
		name = strings.ToLower(name)
	}
	return Field(name), nil
}

// FieldNames returns the names of the fields that do not depend on a format.
func FieldNames() []string { return texts(facts) }

func texts[T ~string](all []T) (texts []string) {
	for _, one := range all {
		texts = append(texts, string(one))
	}
	return texts
}

// Entry is one request of a log, with the values of the fields that the caller of
// [Reader.Entries] reads. A line that waits to be sorted holds no other part of its text.
type Entry struct {
	At   int64  // microseconds since 1970, 0 … weir.MaxInstant
	File string // as given to Open
	Line int64  // counted from 1

	fields []Field // those of the reader
	values []byte
	ends   []uint32 // by field: where its value ends in values
}

// Get returns the value of a field. ok is false if the line has none: the field is
// missing, empty, or a lone - as logs write it, or it is none of those of [Reader.Entries].
// The value is valid until the next entry and must not be changed.
func (e *Entry) Get(f Field) (value []byte, ok bool) {
	i := slices.Index(e.fields, f)
	if i < 0 {
		return nil, false
	}
	start := uint32(0)
	if i > 0 {
		start = e.ends[i-1]
	}
	value = e.values[start:e.ends[i]]
	return value, hasValue(value)
}

// hasValue reports whether the text of a field is a value.
func hasValue(text []byte) bool { return len(text) > 0 && string(text) != "-" }

const (
	entryBytes = 192       // an entry and its place among the others, without values
	maxReused  = 512       // bytes of values that an unused entry keeps room for
	maxHeld    = 128 << 20 // bytes of all entries that wait to be sorted
)

// size returns the memory of the entry.
func (e *Entry) size() int64 { return entryBytes + int64(cap(e.values)) }

// compare orders the entries of one file.
func (e *Entry) compare(other *Entry) int {
	return cmp.Or(cmp.Compare(e.At, other.At), cmp.Compare(e.Line, other.Line))
}
