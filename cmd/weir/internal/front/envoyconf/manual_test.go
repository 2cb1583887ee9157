package envoyconf

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// entries reads "key=value,key=value".
func entries(text string) (e []Entry) {
	for _, each := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(each, "=")
		e = append(e, Entry{Name: key, Value: value})
	}
	return e
}

// matched describes the rule of a descriptor: its path and its numbers, its modes, and its history
// with the values that it counts by.
func matched(c *Config, domain, descriptor string) string {
	d := c.Domain(domain)
	if d == nil {
		return "no domain"
	}
	e := entries(descriptor)
	r := d.Match(e)
	if r == nil {
		return "none"
	}
	text := fmt.Sprintf("%s %d per %v", strings.TrimPrefix(r.Path, domain+"."), r.Requests, r.Window)
	if r.Unlimited {
		text = r.Path + " unlimited"
	}
	if r.Multiplier > 0 {
		text += fmt.Sprintf(", of %d %v", r.Multiplier, r.Unit)
	}
	if r.Shadow {
		text += ", shadow"
	}
	if r.Quota {
		text += ", quota"
	}
	if r.Name != "" {
		text += ", named " + r.Name
	}
	if len(r.Replaces) > 0 {
		text += fmt.Sprint(", replaces ", r.Replaces)
	}
	text += fmt.Sprint("; history ", d.Policy, "/", r.History)
	for _, i := range r.Varying {
		text += "/" + e[i].Value
	}
	return text
}

// TestExamplesOfTheManualMatch: descriptors find the rules of testdata/manual.txt. Those with the
// same rule and values share a history.
func TestExamplesOfTheManualMatch(t *testing.T) {
	const path = "testdata/manual.txt"
	c, err := Load("testdata/manual", Options{})
	if err != nil {
		t.Fatal(err)
	}
	other := func(warning string) bool { return !strings.Contains(warning, "_metric has no effect: ") }
	if len(c.Warnings) != 6 || slices.ContainsFunc(c.Warnings, other) || len(c.Domains) != 14 {
		t.Errorf("%d domains, warnings %q", len(c.Domains), c.Warnings)
	}
	if r := c.Domain("precedence").Match(nil); r != nil {
		t.Errorf("no entries: got %+v", r)
	}
	written := ""
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if call, want, found := strings.Cut(strings.TrimSpace(line), " -> "); found {
			domain, descriptor, _ := strings.Cut(call, " ")
			got := matched(c, domain, descriptor)
			if got != want && !*rewrite {
				t.Errorf("%s: got\n%s, want\n%s", call, got, want)
			}
			line = call + " -> " + got + "\n"
		}
		written += line
	}
	if *rewrite {
		must.Do(t, os.WriteFile(path, []byte(written), 0o644))
	}
}
