package jsontest

import (
	"encoding/json"
	"errors"
)

// A reference reader reads a value with the following functions. It stops at the first
// mistake:
//
//	func reference(b []byte) (names []string, err error) {
//		defer jsontest.Recover(&err)
//		for _, member := range jsontest.Members(jsontest.Must(b)) {
//			names = append(names, member.Name)
//		}
//		return names, nil
//	}

// rejection is the mistake at which a reference reader stopped.
type rejection struct{ error }

// Recover, deferred, sets err to the mistake that Require and the others found.
func Recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case rejection:
		*err = r.error
	default:
		panic(r)
	}
}

// Require stops the reader unless ok.
func Require(ok bool, why string) {
	if !ok {
		panic(rejection{errors.New(why)})
	}
}

// Must is Read, and stops the reader where Read fails.
func Must(b []byte) any {
	v, err := Read(b)
	Require(err == nil, "not strict JSON")
	return v
}

// Members returns the members of an object.
func Members(v any) Object {
	o, ok := v.(Object)
	Require(ok, "not an object")
	return o
}

// Elements returns the elements of an array.
func Elements(v any) []any {
	all, ok := v.([]any)
	Require(ok, "not an array")
	return all
}

// Text returns a string.
func Text(v any) string {
	s, ok := v.(string)
	Require(ok, "not a string")
	return s
}

// Number returns a whole number of 0 … most.
func Number(v any, most int64) (n int64) {
	number, ok := v.(json.Number)
	Require(ok, "not a number")
	n, err := number.Int64()
	Require(err == nil && 0 <= n && n <= most, "out of range")
	return n
}
