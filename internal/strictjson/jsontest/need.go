package jsontest

import (
	"encoding/json"
	"errors"
)

// A reference reader takes a value apart with what follows. It stops at the
// first thing that is not as it must be:
//
//	func reference(b []byte) (line Line, err error) {
//		defer jsontest.Refused(&err)
//		for _, member := range jsontest.Members(jsontest.Must(b)) { … }

// refusal is why a reference reader stopped.
type refusal struct{ error }

// Refused, deferred, makes an error of what Need and the others refused.
func Refused(err *error) {
	switch refused := recover().(type) {
	case nil:
	case refusal:
		*err = refused.error
	default:
		panic(refused)
	}
}

// Need refuses unless ok.
func Need(ok bool, why string) {
	if !ok {
		panic(refusal{errors.New(why)})
	}
}

// Must is Read; it refuses what Read does.
func Must(b []byte) any {
	v, err := Read(b)
	Need(err == nil, "not strict JSON")
	return v
}

// Members are the members of an object.
func Members(v any) Object {
	o, ok := v.(Object)
	Need(ok, "not an object")
	return o
}

// Text is a string.
func Text(v any) string {
	s, ok := v.(string)
	Need(ok, "not a string")
	return s
}

// Number is a whole number of 0 … most; signed reports whether it is written
// with a minus sign, as -0 is.
func Number(v any, most int64) (n int64, signed bool) {
	number, ok := v.(json.Number)
	Need(ok, "not a number")
	n, err := number.Int64()
	Need(err == nil && 0 <= n && n <= most, "out of range")
	return n, number[0] == '-'
}
