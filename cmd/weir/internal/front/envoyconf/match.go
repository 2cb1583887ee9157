package envoyconf

import (
	"strings"

	"github.com/weirlimit/weir/policy"
)

// Entry is a key and a value of a request's descriptor. With a policy it is a dimension.
type Entry = policy.Dimension

// node is one level of a domain's tree with its descriptor.
type node struct {
	exact  map[Entry]*node // by key and value; "" = a descriptor without a value
	wild   []wildcard      // the nodes of exact with a *, in the order of the file
	rule   *Rule           // nil = no rate_limit
	shared bool            // all values that it matches share its histories
}

// wildcard is a descriptor with a * in its key or value.
type wildcard struct {
	key, value pattern // value is nil for a descriptor without a value
	to         *node
}

// pattern is a text split at each *, which stands for any number of characters, or none.
// A nil pattern matches every text.
type pattern []string

func newPattern(text string) pattern { return strings.Split(text, "*") }

// matches reports whether text fits the pattern.
func (p pattern) matches(text string) bool {
	switch len(p) {
	case 0:
		return true
	case 1:
		return p[0] == text
	}
	text, begins := strings.CutPrefix(text, p[0])
	text, ends := strings.CutSuffix(text, p[len(p)-1]) // behind the prefix, so they do not overlap
	if !begins || !ends {
		return false
	}
	for _, part := range p[1 : len(p)-1] {
		// The first match leaves the most text for the next parts.
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// Match returns the rule for a descriptor, or nil: the rule at the end of the path of its
// entries, if the path is as long as the descriptor. Each level tries the key with its
// value first, then wildcards in the order of the file, then the key alone. There is no
// backtracking: a level keeps its choice even if nothing matches on the next.
func (d *Domain) Match(entries []Entry) *Rule {
	at := &d.root
	for i := range entries {
		if at = at.next(&entries[i]); at == nil {
			return nil
		}
	}
	return at.rule
}

// next returns the descriptor for an entry, or nil.
func (n *node) next(e *Entry) *node {
	// An empty value would find the key alone before the wildcards, one of which may be a
	// bare *.
	if e.Value != "" {
		if to := n.exact[*e]; to != nil {
			return to
		}
	}
	for i := range n.wild {
		if w := &n.wild[i]; w.key.matches(e.Name) && w.value.matches(e.Value) {
			return w.to
		}
	}
	return n.exact[Entry{Name: e.Name}]
}
