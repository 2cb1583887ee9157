package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// parseLine reads one line of a trace. The error is a *LineError; the line then has the
// fields before the error.
func parseLine(b []byte) (Line, error) {
	var line Line
	err := new(parser).parse(b, &line)
	return line, err
}

func TestParseLineRejects(t *testing.T) {
	const head = `{"at_us":1,"policy":"p",`
	for _, c := range []struct{ line, want string }{
		// The shape of the line.
		{``, "byte 1: a line must be an object: the text ends here, in the middle of a value; write all of it"},
		{`[]`, "byte 1: a line must be an object, not an array"},
		{`{"at_us":1,"policy":"p"`, "byte 24: the text ends here, in the middle of a value; write all of it"},
		{`{"at_us":1,"policy":"p"} {`, "byte 26: more text behind the object; write one object per line"},
		{head + `}`, "byte 24: invalid character ',' at start of value; write JSON as in RFC 8259, in UTF-8"},
		{`{"at_us" 1}`, "byte 10: at_us must be a whole number of 64 bits: invalid character '1' after object name (expecting ':'); write JSON as in RFC 8259, in UTF-8"},
		{`{"at_us":1 "policy":"p"}`, `byte 12: invalid character '"' after object value (expecting ',' or '}'); write JSON as in RFC 8259, in UTF-8`},
		{`{'at_us':1}`, `byte 2: invalid character '\'' at start of value; write JSON as in RFC 8259, in UTF-8`},
		{head + `"x":1}`, `byte 25: unknown field "x"; a line has at_us, policy, key, n, op, limit, last_us, granted_at_us, id, ttl_us, for_us, max_wait_us`},
		{head + `"N":1}`, `byte 25: unknown field "N"; a line has at_us, policy, key, n, op, limit, last_us, granted_at_us, id, ttl_us, for_us, max_wait_us`},
		{head + `"\u0061t_us":1}`, `byte 25: "at_us" is given twice; give it once`},
		{head + `"n":1,"n":1}`, `byte 31: "n" is given twice; give it once`},

		// Fields that must be there.
		{`{}`, "at_us is missing; every line names its instant, in microseconds since 1970"},
		{`{"at_us":1}`, "policy is missing; every line names the policy that decides it"},
		{head + `"op":"refund"}`, "granted_at_us is missing; a refund names the instant of the grant, the at_us of its answer"},
		{head + `"op":"count","last_us":1}`, "limit is missing; a count names the limit to count in"},
		{head + `"op":"count","limit":"l"}`, "last_us is missing; a count names its span in microseconds, 1 to the limit's window"},

		// Numbers.
		{`{"at_us":1e3}`, "byte 10: at_us must be a whole number of 64 bits; write 1000, not 1e3 or 1000.0"},
		{`{"at_us":9223372036854775808}`, "byte 10: at_us must be a whole number of 64 bits; write 1000, not 1e3 or 1000.0"},
		{`{"at_us":"1"}`, "byte 10: at_us must be a whole number of 64 bits, not a string"},
		{`{"at_us":null}`, "byte 10: at_us must be a whole number of 64 bits, not null"},
		{`{"at_us":1x}`, "byte 11: invalid character 'x' after object value (expecting ',' or '}'); write JSON as in RFC 8259, in UTF-8"},
		{`{"policy":"p","at_us":-1}`, "at_us is -1; use 0 to 9007199254740991"},
		{`{"policy":"p","at_us":-9223372036854775808}`, "at_us is -9223372036854775808; use 0 to 9007199254740991"},
		{`{"policy":"p","at_us":9007199254740992}`, "at_us is 9007199254740992; use 0 to 9007199254740991"},
		{head + `"n":-1}`, "n is -1; use 0 to 2251799813685247"},
		{head + `"n":9223372036854775807}`, "n is 9223372036854775807; use 0 to 2251799813685247"},
		{head + `"last_us":9007199254740992}`, "last_us is 9007199254740992; use 0 to 9007199254740991"},
		{head + `"granted_at_us":-5}`, "granted_at_us is -5; use 0 to 9007199254740991"},

		// Operations.
		{head + `"id":""}`, "id is 0 bytes long; use 1 to 128, or leave it away"},
		{head + `"id":"` + strings.Repeat("x", 129) + `"}`, "id is 129 bytes long; use 1 to 128, or leave it away"},
		{head + `"id":7}`, "byte 30: id must be a string, not a number"},

		// Strings.
		{head + `"op":"chek"}`, `byte 30: unknown op "chek"; use check, peek, record, refund, reset, count, settle, extend or block`},
		{head + `"op":1}`, "byte 30: op must be a string, not a number"},
		{`{"policy":true}`, "byte 11: policy must be a string, not true"},
		{`{"policy":"p`, "byte 13: the text ends here, in the middle of a value; write all of it"},
		{`{"policy":"\x41"}`, "byte 12: invalid escape sequence `\\x` in string; write JSON as in RFC 8259, in UTF-8"},
		{`{"policy":"\ud83d"}`, "byte 12: invalid surrogate pair `\\ud83d\"}` in string; write JSON as in RFC 8259, in UTF-8"},

		// Keys.
		{head + `"key":[]}`, "byte 31: key must be an object of dimensions and their values, not an array"},
		{head + `"key":{"a":1}}`, "byte 36: the value of a dimension must be a string, not a number"},
		{head + `"key":{"a":{"b":"c"}}}`, "byte 36: the value of a dimension must be a string, not an object"},
		{head + `"key":{"a":"1","a":"2"}}`, `byte 40: "a" is given twice; give it once`},
		{head + `"key":{"a":"1",}}`, "byte 39: invalid character ',' at start of value; write JSON as in RFC 8259, in UTF-8"},
		{head + `"key":{"a":"1"`, "byte 39: the text ends here, in the middle of a value; write all of it"},
	} {
		line, err := parseLine([]byte(c.line))
		if err == nil {
			t.Errorf("%s\ngot  %+v\nwant %s", c.line, line, c.want)
		} else if err.Error() != c.want {
			t.Errorf("%s\ngot  %v\nwant %s", c.line, err, c.want)
		}
	}
}

func TestParseBoundsTheDimensions(t *testing.T) {
	key := func(n int) []byte {
		var pairs []string
		for i := range n {
			pairs = append(pairs, fmt.Sprintf(`"d%d":"v"`, i))
		}
		return fmt.Appendf(nil, `{"at_us":1,"policy":"p","key":{%s}}`, strings.Join(pairs, ","))
	}
	if got, err := parseLine(key(weir.MaxDimensions)); err != nil || len(got.Key) != weir.MaxDimensions {
		t.Errorf("a key of %d dimensions: got %v, %v", weir.MaxDimensions, got.Key, err)
	}
	if _, err := parseLine(key(weir.MaxDimensions + 1)); err == nil || !strings.Contains(err.Error(), "at most 16 dimensions") {
		t.Errorf("a key of %d dimensions: got %v, want at most 16", weir.MaxDimensions+1, err)
	}
}

func TestParseAt(t *testing.T) {
	for _, c := range []struct {
		line string
		at   int64
		ok   bool
	}{
		{`{"x":{"at_us":9},"at_us":5}`, 5, true},
		{`{"x":1,"at_us":-5}`, -5, true},
		{`{"x":1,"AT_US":5}`, 0, false},
		{`{"x":1,"at_us":5.5}`, 0, false},
		{`{"x":1,"at_us":"5"}`, 0, false},
		{`{"x":1,"at_us":null}`, 0, false},
		{`{"x":1}`, 0, false},
		{`{"x":1,"at_us":5`, 0, false},
		{`null`, 0, false},
	} {
		if at, ok := parseAt([]byte(c.line)); at != c.at || ok != c.ok {
			t.Errorf("%s: got %d, %v; want %d, %v", c.line, at, ok, c.at, c.ok)
		}
	}
}
