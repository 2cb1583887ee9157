package strictjson

import (
	"errors"
	"strings"
	"testing"
)

// item is the shape of the texts of these tests.
type item struct {
	name string
	n    int64
	on   bool
	tags []string
	meta map[string]string
}

// read reads an item by r.
func read(r *Reader, text string) (it item, err error) {
	it.meta = map[string]string{}
	text2 := func(want string) string {
		var b []byte
		if err == nil {
			b, err = r.Text(want)
		}
		return string(b)
	}
	bad := r.Read([]byte(text), "the text must be an object", "more text", func(name []byte) error {
		switch string(name) {
		case "name":
			it.name = text2("name must be a string")
		case "n":
			it.n, err = r.Number("n must be a whole number")
		case "on":
			it.on, err = r.Bool("on must be true or false")
		case "tags":
			return r.Array("tags must be an array", func() error {
				it.tags = append(it.tags, text2("a tag must be a string"))
				return err
			})
		case "meta":
			return r.Object("meta must be an object", func(name []byte) error {
				it.meta[string(name)] = text2("a value must be a string")
				return err
			})
		default:
			return r.Fault("unknown member " + string(name))
		}
		return err
	})
	return it, bad
}

func TestReader(t *testing.T) {
	r := new(Reader)
	for range 2 { // the memory of the first text is used again
		it, err := read(r, ` {"name":"a\"\u00e9\ud83d\ude00" , "n":-9223372036854775808,"on":true,
			"tags":["b","\u0063"],"meta":{"d":"","\n":"e"}}`+"\n")
		if err != nil || it.name != "a\"é😀" || it.n != -1<<63 || !it.on || strings.Join(it.tags, "") != "bc" || it.meta["\n"] != "e" || len(it.meta) != 2 {
			t.Errorf("%+v, %v", it, err)
		}
	}
}

func TestReaderErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                          "byte 1: the text must be an object: the text ends here",
		`[]`:                        "byte 1: the text must be an object, not an array",
		`x`:                         "byte 1: the text must be an object: invalid character 'x'",
		`{"n":1} {`:                 "byte 9: more text",
		`{"n":1},`:                  "byte 9: more text",
		"{}\x00":                    "byte 3: more text",
		`{"m":1}`:                   "byte 2: unknown member m",
		`{"n":1,"\u006e":2}`:        `byte 8: "n" is given twice; give it once`,
		`{"meta":{"a":"","a":1}}`:   `byte 17: "a" is given twice`,
		`{"n":1`:                    "byte 7: the text ends here",
		`{"n":1 "on":true}`:         "byte 8: invalid character '\"' after object value (expecting ',' or '}')",
		`{"n" 1}`:                   "byte 6: n must be a whole number: invalid character '1' after object name (expecting ':')",
		`{"n":1,}`:                  "byte 7: invalid character",
		`{1:1}`:                     "byte 2: object member name must be a string",
		`{"n":"1"}`:                 "byte 6: n must be a whole number, not a string",
		`{"n":1e3}`:                 "byte 6: n must be a whole number; write 1000",
		`{"n":-0}`:                  "byte 6: n must be a whole number; write 0 without a sign",
		`{"n":9223372036854775808}`: "byte 6: n must be a whole number; write 1000",
		`{"n":01}`:                  "byte 7: invalid character '1'",
		`{"on":null}`:               "byte 7: on must be true or false, not null",
		`{"name":{"a":1}}`:          "byte 9: name must be a string, not an object",
		`{"name":"a`:                "byte 11: the text ends here",
		"{\"name\":\"\xff\"}":       "byte 10: invalid UTF-8",
		`{"name":"\ud83d"}`:         "byte 10: invalid surrogate pair",
		`{"name":"\x41"}`:           "byte 10: invalid escape sequence",
		"{\"name\":\"a\nb\"}":       "byte 11: invalid character '\\n' in string",
		`{"tags":["a",]}`:           "byte 13: a tag must be a string: invalid character",
		`{"tags":{}}`:               "byte 9: tags must be an array, not an object",
	} {
		_, err := read(new(Reader), text)
		var bad *Error
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	r, text := new(Reader), []byte(`{"a":"`+strings.Repeat(`\u00e9`, 100)+`","\n":-12}`)
	one := func() {
		err := r.Read(text, "", "", func(name []byte) (err error) {
			if string(name) == "a" {
				_, err = r.Text("")
			} else {
				_, err = r.Number("")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	one()
	if got := testing.AllocsPerRun(100, one); got != 0 {
		t.Errorf("a text allocates %v times, want 0", got)
	}
}
