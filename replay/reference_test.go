package replay

import (
	"encoding/json"
	"errors"

	"github.com/weirlimit/weir/internal/strictjson/jsontest"
)

// reference reads a line by encoding/json and the words of the package comment,
// at leisure. It is what the hand-written parser is held against.
func reference(b []byte) (line Line, err error) {
	defer func() {
		if refused := recover(); refused != nil {
			line, err = Line{}, refused.(error)
		}
	}()
	require(len(b) <= MaxLineBytes, "too long")
	read, err := jsontest.Read(b)
	require(err == nil, "not strict JSON")
	line.N = 1
	seen := map[string]bool{}
	for _, m := range referenceObject(read) {
		seen[m.Name] = true
		switch m.Name {
		case "at_us":
			line.At = referenceNumber(m.Value)
		case "n":
			line.N = referenceNumber(m.Value)
		case "last_us":
			line.Last = referenceNumber(m.Value)
		case "granted_at_us":
			line.GrantedAt = referenceNumber(m.Value)
		case "policy":
			line.Policy = referenceString(m.Value)
		case "limit":
			line.Limit = referenceString(m.Value)
		case "op":
			op, ok := map[string]Op{"check": Check, "peek": Peek, "record": Record, "refund": Refund,
				"reset": Reset, "count": Count}[referenceString(m.Value)]
			require(ok, "op")
			line.Op = op
		case "key":
			for _, d := range referenceObject(m.Value) {
				line.Key = append(line.Key, Dimension{d.Name, referenceString(d.Value)})
			}
			require(len(line.Key) <= 16, "dimensions")
		default:
			require(false, "unknown field")
		}
	}
	require(seen["at_us"] && seen["policy"], "missing")
	require(line.Op != Refund || seen["granted_at_us"], "missing of refund")
	require(line.Op != Count || seen["last_us"] && seen["limit"], "missing of count")
	return line, nil
}

func require(ok bool, why string) {
	if !ok {
		panic(errors.New(why))
	}
}

func referenceObject(v any) jsontest.Object {
	o, ok := v.(jsontest.Object)
	require(ok, "not an object")
	return o
}

func referenceNumber(v any) int64 {
	number, _ := v.(json.Number)
	n, err := number.Int64()
	require(err == nil && 0 <= n && n < 1<<53, "number")
	return n
}

func referenceString(v any) string {
	s, ok := v.(string)
	require(ok, "not a string")
	return s
}
