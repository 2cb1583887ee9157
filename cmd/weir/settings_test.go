package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestSizesAndSharesAreExact: a valid size or share is printed as it is read. Any other text is
// an error and changes nothing.
func TestSizesAndSharesAreExact(t *testing.T) {
	bytes, sample := int64(5), int64(5)
	for _, c := range []struct {
		value     pflag.Value
		good, bad string
	}{
		{(*sizeValue)(&bytes), "1000001KiB 1048577 1MiB 512MiB 2GiB", " 0 -1 5 1048575 1023KiB MiB 1MB 1.5GiB 9999999999GiB 1e9"},
		{(*shareValue)(&sample), "1 1/1000000", " 0 -1 1/0 10 1/ 2/3 1/1.5 0.1"},
	} {
		for _, text := range strings.Fields(c.good) {
			if err := c.value.Set(text); err != nil || c.value.String() != text {
				t.Errorf("%s: got %s, %v", text, c.value, err)
			}
		}
		before := c.value.String()
		for _, text := range strings.Split(c.bad, " ") {
			if err := c.value.Set(text); err == nil || c.value.String() != before {
				t.Errorf("%q: got %s, %v; want an error and no change", text, c.value, err)
			}
		}
	}
	if want := int64(2 << 30); bytes != want || sample != 1e6 {
		t.Errorf("got %d and 1/%d, want %d and 1/1000000", bytes, sample, want)
	}
}

// TestPrintedSettingsAreRead: --config reads the output of weir config print, and every setting
// gets its printed value.
func TestPrintedSettingsAreRead(t *testing.T) {
	table := new(serveOptions).bindSettings()
	for _, s := range table {
		if s.value.Type() == "string" && !slices.Contains([]string{"store", "gate-id-header", "otlp-endpoint"}, s.name) {
			must.Do(t, s.value.Set(fmt.Sprintf("unix:/run/a \"%s\" é", s.name)))
		}
	}
	for name, text := range map[string]string{"host": "weir.example.com", "max-memory": "1GiB", "insecure-listen": "true", "log-level": "warn",
		"drain": "1m0s", "record-sample": "1/7", "otlp-ratio": "0.5", "socket-mode": "0600", "max-in-flight": "7", "store": "redis://127.0.0.1:6379",
		"gate-id-header": "X-Request-Id", "otlp-endpoint": "http://127.0.0.1:4318"} {
		must.Do(t, table.setting(name).value.Set(text))
	}
	for _, s := range table {
		s.shown = nil
	}
	var printed strings.Builder
	table.write(&printed)
	read := new(serveOptions).bindSettings()
	n, errs := read.parse("printed.yaml", []byte(printed.String()))
	if len(errs) > 0 || n != len(table) {
		t.Fatalf("%d settings, %v, want %d of:\n%s", n, errs, len(table), &printed)
	}
	for _, s := range table {
		if got := read.setting(s.name); got.value.String() != s.value.String() || got.source != fmt.Sprintf("printed.yaml:%d", got.place.Line) {
			t.Errorf("%s: read as %s from %s, want %s", s.name, got.value, got.source, s.value)
		}
	}
}

// TestErrorsOfTheFileNamePlaces: each error has its place, the problem and the next step.
func TestErrorsOfTheFileNamePlaces(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"load: {max-in-flight: 0}", "1:23: max-in-flight must be 1 or more, not 0; leave it out for the default"},
		{"load: {max-in-flight: 010}", `1:23: max-in-flight begins with 0, which programs take for another base: "010"; write a decimal number`},
		{"load: {max-in-flight: 0x10}", `1:23: max-in-flight begins with 0, which programs take for another base: "0x10"; write a decimal number`},
		{"load: {linger: 250}", `1:16: linger takes a duration such as 250ms, not "250"; did you mean 250ms or 250s?`},
		{"load: {drain: 10}", `1:15: drain takes a duration such as 10s, not "10"; did you mean 10s?`},
		{`policies: ""`, "1:11: policies is empty; write one, or remove the key"},
		{`store: {store: ""}`, "1:16: store is empty; "},
		{"load: [drain]", "1:7: load is a section, not a list; "},
		{"load: {drain: {s: 10}}", "1:15: drain takes one value, not a map; "},
		{"load: {drain: }", "1:14: drain has no value; write one, or remove the key"},
		{"load: {dran: 10s}", `1:8: section load has no "dran"; did you mean drain?`},
		{"load: {lisen: x}", `1:8: section load has no "lisen"; did you mean listen, in section listeners?`},
		{"load: {bogus-setting-of-mine: x}", `1:8: section load has no "bogus-setting-of-mine"; it has max-connections, `},
		{"load: {listen: x}", "1:8: listen does not belong in section load; move it to section listeners"},
		{"listen: x", "1:1: listen does not belong in the top level of the file; move it to section listeners"},
		{"logs: {}", `1:1: the top level of the file has no "logs"; `},
		{"load: {drain: 1s, drain: 2s}", `1:19: "drain" is there already, on line 1; remove one of the two`},
		{"load: {drain: 1s}\nload: {}", `2:1: "load" is there already, on line 1; `},
		{"- load", "1:1: the file is a list, not a map of sections; "},
		{"load:\n\tdrain: 1s", "2:1: a tab cannot indent a line"},
		{"listeners: {host: [a.example, http://b]}", `1:31: host takes the name of a host, not "http://b"; write the name alone`},
		{"listeners: {host: [[a]]}", "1:20: host takes one value, not a list; "},
		{"listeners: {listen: nowhere}", `1:21: listen must be an address, not "nowhere"; write nowhere:7070`},
		{"listeners: {insecure-listen: maybe}", `1:30: insecure-listen takes true or false, not "maybe"`},
		{"store: {store: sql://:hunter2@h}", `1:16: store names no store: there is no store of the kind "sql://"`},
		{"store: {store: 'redis:/:hunter2@h'}", `1:16: store names no store: "…@h" is neither memory nor a URL`},
		{"store: {store: redis://:hunter2@h: 1}", "1:34: "},
		{"tokens: {gate-id-header: 'Foo:bar'}", `1:26: gate-id-header takes the name of a header field, not "Foo:bar"; write letters, digits and dashes alone`},
		{"tokens: {gate-id-header: host}", `1:26: gate-id-header takes a field that differs between requests, not Host; X-Request-Id is one`},
		{"logging: {otlp-endpoint: ftp://collector}", "1:26: otlp-endpoint is not the URL of a collector; write http://host:4318"},
		{"logging: {otlp-endpoint: 'http://:hunter2@h'}", "1:26: otlp-endpoint has a password or a query, which is not sent; set $OTEL"},
		{"logging: {otlp-ratio: 2}", "1:23: otlp-ratio must be 0 to 1, not 2; "},
		{"logging: {log-format: xml}", `1:23: log-format must be text or json, not "xml"; text is the default`},
	} {
		_, errs := new(serveOptions).bindSettings().parse("f.yaml", []byte(c.file))
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "f.yaml:"+c.want) || errs[0].Next == "" || strings.Contains(fmt.Sprint(errs), "hunter2") {
			t.Errorf("%s: got\n%v\nwant\nf.yaml:%s", c.file, errs, c.want)
		}
	}
	if n, errs := new(serveOptions).bindSettings().parse("f.yaml", []byte("# nothing yet\nload:\n")); n > 0 || len(errs) > 0 {
		t.Errorf("an empty section: got %d settings, %v", n, errs)
	}
	if _, errs := new(serveOptions).bindSettings().parse("f.yaml", make([]byte, 1<<20)); len(errs) != 1 || !strings.Contains(errs[0].Error(), "256 KiB") {
		t.Errorf("a large file: got %v", errs)
	}
}

// TestSchemaAcceptsTheIntegersThatWeirReads: the schema rejects an integer such as 250 for a
// duration exactly if weir rejects it.
func TestSchemaAcceptsTheIntegersThatWeirReads(t *testing.T) {
	for _, s := range new(serveOptions).bindSettings() {
		made := schemaOf(t, s)
		forms, _ := made["anyOf"].([]schema)
		for _, n := range []int{0, 1, 250, 600, 1001, minSize - 1, minSize} {
			accepts := false
			for _, form := range append(forms, made) {
				least, bounded := form["minimum"].(int)
				most, capped := form["maximum"].(int)
				accepts = accepts || form["type"] == "integer" && (!bounded || n >= least) && (!capped || n <= most)
			}
			if _, errs := new(serveOptions).bindSettings().parse("f.yaml", fmt.Appendf(nil, "%s: {%s: %d}", s.section.name, s.name, n)); accepts && errs != nil {
				t.Errorf("%s: the schema accepts %d: %v", s.name, n, errs)
			} else if !accepts && errs == nil && !slices.Contains([]string{"string", "names", "bool", "float64"}, s.value.Type()) {
				t.Errorf("%s: the schema rejects %d", s.name, n)
			}
		}
	}
}

// A schema is a JSON Schema or a part of it.
type schema map[string]any

// TestSchemaIsMadeOfTheSettings: weir-serve.schema.json is the schema of the settings.
func TestSchemaIsMadeOfTheSettings(t *testing.T) {
	sections := schema{}
	for _, s := range new(serveOptions).bindSettings() {
		in := sections
		if name := s.section.name; name != "" {
			if sections[name] == nil {
				sections[name] = schema{"type": "object", "description": s.section.heading, "properties": schema{}, "additionalProperties": false}
			}
			in = sections[name].(schema)["properties"].(schema)
		}
		in[s.name] = schemaOf(t, s)
	}
	got, err := json.MarshalIndent(schema{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Configuration of weir serve",
		"type": "object", "properties": sections, "additionalProperties": false}, "", "  ")
	must.Do(t, err)
	const file = "weir-serve.schema.json"
	if *rewrite {
		err = os.WriteFile(file, append(got, '\n'), 0o644)
	}
	want, readErr := os.ReadFile(file)
	if err != nil || readErr != nil {
		t.Fatal(err, readErr)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("%s differs from the settings; after reading the difference, run with -rewrite:\n%s", file, got)
	}
}

// schemaOf returns the schema of a setting with its default.
func schemaOf(t *testing.T, s *setting) schema {
	t.Helper()
	text := schema{"type": "string"}
	patterned := func(pattern string, integer schema) []schema {
		integer["type"] = "integer"
		return []schema{integer, {"type": "string", "pattern": pattern}}
	}
	var made schema
	switch v := s.value.(type) {
	case *textValue:
		made = schema{"type": "string"}
	case interface{ words() []string }:
		made = schema{"type": "string", "enum": v.words()}
	case *namesValue:
		made = schema{"anyOf": []schema{text, {"type": "array", "items": text}}}
	case *boolValue:
		made = schema{"type": "boolean"}
	case *intValue:
		made = schema{"type": "integer", "minimum": v.least, "maximum": v.most}
	case *ratioValue:
		made = schema{"type": "number", "minimum": 0, "maximum": 1}
	case *durationValue:
		forms := patterned(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, schema{"minimum": 0, "maximum": 0})
		if v.least > 0 {
			forms = forms[1:] // 0 is the only duration without a unit
		}
		made = schema{"anyOf": forms}
	case *sizeValue:
		made = schema{"anyOf": patterned(`^[0-9]+(KiB|MiB|GiB)?$`, schema{"minimum": minSize})}
	case *shareValue:
		made = schema{"anyOf": patterned(`^1(/[0-9]+)?$`, schema{"minimum": 1, "maximum": 1})}
	case *modeValue:
		made = schema{"anyOf": patterned(`^[0-7]+$`, schema{"minimum": 1, "maximum": 777})}
	}
	if made == nil {
		t.Fatalf("%s: no schema for %s", s.name, s.value.Type())
	}
	if made["maximum"] == math.MaxInt {
		delete(made, "maximum")
	}
	made["description"] = strings.ReplaceAll(settingHelp()[s.name], "`", "")
	switch standard := s.value.String(); {
	case standard == "" || s.value.Type() == "names":
	case slices.Contains([]string{"bool", "int", "float64"}, s.value.Type()):
		made["default"] = json.RawMessage(standard)
	default:
		made["default"] = standard
	}
	return made
}

// TestEmptyFlagsAreErrors: every verb rejects a flag with an empty text, which an unset
// variable of a shell may give.
func TestEmptyFlagsAreErrors(t *testing.T) {
	tested := 0
	eachFlag(rootCommand(), func(cmd *cobra.Command, f *pflag.Flag) {
		if f.Value.Type() != "string" || !cmd.Runnable() {
			return
		}
		tested++
		args := append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name+"=", "x")
		code, out, messages := runWeir(args...)
		if strings.Contains(messages, "one argument too many") || strings.Contains(messages, "is missing") {
			code, out, messages = runWeir(args[:len(args)-1]...)
		}
		if code != exitUsage || out != "" || !strings.Contains(messages, "--"+f.Name) || !strings.Contains(messages, "\n  ") {
			t.Errorf("%q: exit code %d, %s%s", args, code, out, messages)
		}
	})
	if tested < 40 {
		t.Errorf("%d flags, want at least 40", tested)
	}
}

// TestEverySettingIsInTheHelp: --all shows every setting. Without it the help has ten flags and
// names --all.
func TestEverySettingIsInTheHelp(t *testing.T) {
	help := func(args ...string) string {
		code, out, messages := runWeir(append([]string{"serve"}, args...)...)
		if code != 0 || messages != "" {
			t.Fatalf("%q: exit code %d:\n%s%s", args, code, out, messages)
		}
		return out
	}
	short, long := help("-h"), help("-h", "--all")
	if help("--all") != long {
		t.Error("--all alone prints other help")
	}
	common := 0
	table := new(serveOptions).bindSettings()
	if n := len(settingHelp()); n != len(table) {
		t.Errorf("help/settings.txt has %d settings, want %d", n, len(table))
	}
	for _, s := range table {
		if settingHelp()[s.name] == "" {
			t.Errorf("help/settings.txt does not have %s", s.name)
		}
		if !strings.Contains(long, "--"+s.name) {
			t.Errorf("--all does not show --%s", s.name)
		}
		if s.common {
			common++
		}
		if listed := regexp.MustCompile(`(?m)^ +(-\w, )?--` + s.name + " ").MatchString(short); listed != s.common {
			t.Errorf("the short help has --%s: %t", s.name, !s.common)
		}
	}
	if common != 9 || !strings.Contains(short, "--config") || !strings.Contains(short, "weir serve -h --all shows") {
		t.Errorf("%d common settings, want 9 beside --config:\n%s", common, short)
	}
}
