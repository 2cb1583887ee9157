package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/duration"
)

// Changes describes the differences between two files, a phrase for each, such as "api: plan
// free 20 → 2000 per minute per user". Limits that start empty are first, the others in the
// order of the files. It returns none if both decide alike and have the same texts for people.
// Tests are not compared.
func Changes(before, after *File) []string {
	var all []string
	old := make(map[string]*Definition, len(before.Policies))
	for _, p := range before.Policies {
		old[p.Name] = p
	}
	for _, p := range after.Policies {
		if was := old[p.Name]; was == nil {
			all = append(all, p.Name+": added with "+p.limitsText())
		} else {
			all = append(all, was.changes(p)...)
		}
		delete(old, p.Name)
	}
	for _, p := range before.Policies {
		if old[p.Name] != nil {
			all = append(all, p.Name+": removed with "+p.limitsText())
		}
	}
	emptyFirst := func(a, b string) int {
		return strings.Count(b, startsEmpty) - strings.Count(a, startsEmpty)
	}
	slices.SortStableFunc(all, emptyFirst)
	return all
}

// startsEmpty is in the phrase about a limit that has another history than before (R12).
const startsEmpty = "; the limit starts empty, because "

// section is a limit, a plan or an override of a policy in words, or the rest of the policy.
type section struct {
	label string // unique in its policy, such as "plan free"; "" for the rest
	parts []part
}

// part is a member of a section in words. A part with the default value has no text.
type part struct{ name, text string }

// keysPart is the part with the forms of addresses, and otherForms is in the phrase about it.
const (
	keysPart   = "keys"
	otherForms = "; an address starts empty if its counted form differs"
)

// isSet is the text of a part that has no value of its own, such as shadow.
const isSet = "true"

func (p part) String() string {
	if p.text == isSet {
		return p.name
	}
	return strings.TrimSpace(p.name + " " + p.text)
}

// sections returns the whole policy in words. Every member of a Definition that a file can
// change belongs here: TestEveryMemberHasWords fails for one that does not.
func (p *Definition) sections() []section {
	all := []section{{"", []part{
		{"about", quoted(p.About)},
		{"denied", deniedValues[indexOf(p.Mode == weir.CountDenied)]},
		{"batch", batchValues[indexOf(p.Mode == weir.Partial)]},
		{"when-store-is-down", strings.ToLower(p.WhenStoreIsDown.String())},
		{"max-wait", only(p.MaxWait != 0, duration.Format(p.MaxWait))},
		{"count", countValues[indexOf(p.Reported)]},
		{"shadow", only(p.Shadow, isSet)},
		{"plan-by", p.PlanBy},
		{keysPart, p.formsText()},
	}}}
	for i := range p.Limits {
		all = append(all, p.limitSection(i))
	}
	for _, plan := range p.Plans {
		all = append(all, section{"plan " + plan.Name, p.changeParts(plan.Changes)})
	}
	repeated := map[string]int{}
	for i := range p.Overrides {
		s := p.overrideSection(&p.Overrides[i])
		repeated[s.label]++
		if n := repeated[s.label]; n > 1 { // the same key until several instants
			s.label += fmt.Sprintf(" (%d)", n)
		}
		all = append(all, s)
	}
	return all
}

// limitLabel names limit i in a phrase. That of a policy with limit: has no name in the file.
func (p *Definition) limitLabel(i int) string {
	if name := p.Limits[i].Name; name != onlyLimitName {
		return "limit " + name
	}
	return "limit"
}

func (p *Definition) limitSection(i int) section {
	l := &p.Limits[i]
	warn := valueOf(p.WarnPercents, i)
	return section{p.limitLabel(i), []part{
		{"", p.Sentence(i)},
		{"cells", only(l.Cells > 0, formatNumber(int64(l.Cells)))},
		{"cost", only(l.Cost > 0, formatNumber(l.Cost))},
		{"warn", only(warn > 0, strconv.Itoa(warn)+"%")},
	}}
}

func (p *Definition) overrideSection(o *Override) section {
	label := "override"
	for _, d := range o.sortedFor() {
		value := d.Value
		if answer.Shown(value) != value {
			value = strconv.Quote(value) // as a whole: it distinguishes overrides
		}
		label += " " + d.Name + "=" + value
	}
	until := forever
	if !o.Until.IsZero() {
		until = untilText(o.Until)
	}
	parts := append([]part{{"plan", o.Plan}}, p.changeParts(o.Changes)...)
	return section{label, append(parts, part{"until", until}, part{"why", quoted(o.Why)})}
}

// untilText returns the end of an override as a file has it. If the instant is the end of a day,
// that is the day.
func untilText(until time.Time) string {
	until = until.UTC()
	if day := until.Add(-time.Nanosecond); until.Equal(until.Truncate(24 * time.Hour)) {
		return day.Format(time.DateOnly)
	}
	return until.Format(time.RFC3339Nano)
}

// changeParts returns the limits that changes set, with their numbers.
func (p *Definition) changeParts(changes []Change) (parts []part) {
	with := p.With(changes)
	for _, c := range changes {
		name := p.limitLabel(c.Limit)
		if name == "limit" {
			name = ""
		}
		parts = append(parts, part{name, with.Sentence(c.Limit)})
	}
	return parts
}

// limitsText returns all limits of the policy.
func (p *Definition) limitsText() string {
	var limits []string
	for i := range p.Limits {
		limits = append(limits, p.limitLabel(i)+" "+p.Sentence(i))
	}
	return strings.Join(limits, " and ")
}

// changes describes the differences between p and to, a phrase for each.
func (p *Definition) changes(to *Definition) (all []string) {
	add := func(phrase string) { all = append(all, p.Name+": "+phrase) }
	before, after := p.sections(), to.sections()
	old := make(map[string]section, len(before))
	for _, s := range before {
		old[s.label] = s
	}
	kept := map[string]bool{}
	for _, s := range after {
		was, found := old[s.label]
		if !found {
			add(s.String() + " added")
			continue
		}
		kept[s.label] = true
		note := p.historyNote(to, s.label)
		for _, change := range was.changes(s) {
			if s.label == "" && strings.HasPrefix(change, keysPart+" ") {
				note = otherForms
			}
			add(change + note)
			note = ""
		}
	}
	for _, s := range before {
		if !kept[s.label] {
			add(s.String() + " removed")
		}
	}
	for _, list := range []string{"limit", "override"} {
		if !slices.Equal(labels(before, list, kept), labels(after, list, kept)) {
			add("the " + list + "s are in another order")
		}
	}
	return all
}

// labels returns the labels of the kept sections of a list, in order.
func labels(sections []section, list string, kept map[string]bool) (all []string) {
	for _, s := range sections {
		if kept[s.label] && strings.HasPrefix(s.label, list) {
			all = append(all, s.label)
		}
	}
	return all
}

// historyNote returns the reason why the limit of a label has another history in to (R12), ""
// if it has the same.
func (p *Definition) historyNote(to *Definition, label string) string {
	find := func(p *Definition) *weir.Limit {
		for i := range p.Limits {
			if p.limitLabel(i) == label {
				return &p.Limits[i]
			}
		}
		return nil
	}
	now := find(to)
	if now == nil {
		return ""
	}
	was := find(p)
	switch {
	case was.Kind != now.Kind:
		return startsEmpty + "its kind has changed"
	case !slices.Equal(sorted(was.By), sorted(now.By)):
		return startsEmpty + "it counts by other keys"
	}
	return ""
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// String returns the label and all parts that have a text.
func (s section) String() string {
	var parts []string
	for _, p := range s.parts {
		if p.text != "" {
			parts = append(parts, p.String())
		}
	}
	return s.label + " " + strings.Join(parts, ", ")
}

// changes describes the differences between s and to, a phrase for each part.
func (s section) changes(to section) (all []string) {
	names := mapped(to.parts, func(p part) string { return p.name })
	for _, p := range s.parts {
		if !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	for _, name := range names {
		was, now := s.text(name), to.text(name)
		var phrase string
		switch {
		case was == now:
			continue
		case was == "":
			phrase = part{name, now}.String() + " added"
		case now == "":
			phrase = part{name, was}.String() + " removed"
		default:
			phrase = part{name, fromTo(was, now)}.String()
		}
		all = append(all, strings.TrimSpace(s.label+" "+phrase))
	}
	return all
}

// text returns the text of the part of that name, "" if there is none.
func (s section) text(name string) string {
	for _, p := range s.parts {
		if p.name == name {
			return p.text
		}
	}
	return ""
}

// fromTo returns "20 → 2000 per minute" for "20 per minute" and "2000 per minute": the words at
// the end that both have in common are written once.
func fromTo(was, now string) string {
	if strings.HasPrefix(was, `"`) { // a text for people
		return was + " → " + now
	}
	old, new := strings.Split(was, " "), strings.Split(now, " ")
	for len(old) > 1 && len(new) > 1 && old[len(old)-1] == new[len(new)-1] {
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	return strings.Join(old, " ") + " → " + now
}

// quoted quotes a text of the file for people, "" if there is none.
func quoted(text string) string { return only(text != "", strconv.Quote(text)) }

// only returns the text if it applies, otherwise "".
func only(applies bool, text string) string {
	if applies {
		return text
	}
	return ""
}

// indexOf returns 1 for true and 0 for false, the indexes of the words of a choice.
func indexOf(b bool) int {
	if b {
		return 1
	}
	return 0
}
