package policy

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

func TestLimitChangesNamesOldAndNew(t *testing.T) {
	parse := func(lines string) *File {
		t.Helper()
		return must.Get(Parse("weir.yaml", []byte("version: 1\npolicies:\n"+lines)))(t)
	}
	before := parse(`  push:  {limit: "10 per minute per teacher, 3s apart"}
  slack: {limits: {channel: 100 per 30m, category: 2 per 30m per category}}
  gone:  {limit: 1 per minute}
  word:  {limit: 1 per minute, about: Old words.}
  cost:  {limit: 1 per minute, costs: {limit: 1}}
  moved:
    limit: 1 per minute per user
    overrides:
      - {for: {user: ann}, limit: 2 per minute, until: forever, why: x}
  both:
    limit: 1 per minute per user
    overrides: [{for: {user: ann}, limit: 2 per minute, until: forever, why: x}]
  kind:  {limit: 1 per minute}
  order: {limit: 1 per minute per user per ip}
  other: {limit: 1 per minute per user}
  same:  {limit: 1 per minute}
`)
	after := parse(`  same:  {limit: 1 per 60s}
  fresh: {limit: 1 per minute}
  kind:  {limit: "1 per minute, fixed"}
  push:  {limit: "5 per minute per teacher, 3s apart"}
  slack: {limits: {channel: 100 per 30m, sender: 3 per 30m per sender}}
  order: {limit: 1 per minute per ip per user}
  other: {limit: 1 per minute per ip}
  word:  {limit: 1 per minute, about: New words.}
  cost:  {limit: 1 per minute, costs: {limit: 2}}
  moved: {limit: 1 per minute per user, overrides: [{for: {user: ann}, limit: 2 per minute, until: forever, why: x}]}
  both:
    limit: 2 per minute per user
    overrides: [{for: {user: ann}, limit: 3 per minute, until: forever, why: x}]
`)
	want := []string{
		"changed kind.limit: 1 per minute, fixed, was 1 per minute; it starts empty, because its kind has changed",
		"changed other.limit: 1 per minute per ip, was 1 per minute per user; it starts empty, because it counts by other keys",
		"added fresh",
		"changed push.limit: 5 per minute per teacher, 3s apart, was 10 per minute per teacher, 3s apart",
		"added slack.sender: 3 per 30m per sender",
		"removed slack.category",
		"changed order.limit: 1 per minute per ip per user, was 1 per minute per user per ip",
		"changed word besides its limits",
		"changed the limits of cost",
		"changed both.limit: 2 per minute per user, was 1 per minute per user",
		"changed both besides its limits",
		"removed gone",
	}
	assert.Equal(t, strings.Join(Changes(before, after), "\n"), strings.Join(want, "\n"), "changes")
	assert.Equal(t, len(Changes(before, before)), 0, "changes from a file to itself")
}
