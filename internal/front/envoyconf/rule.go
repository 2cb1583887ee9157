package envoyconf

import "time"

// Rule is one descriptor of the configuration that has a rate_limit.
type Rule struct {
	Path string // its place as the reference's metrics name it: domain.key_value.key
	File string
	Line int // of its key in the file

	Index int // in Domain.Rules

	Requests   uint32        // per period; 0 refuses everything
	Unit       Unit          // 0 with Unlimited
	Multiplier uint32        // units in the period; 0 = not given, which is 1
	Window     time.Duration // the period; 0 with Unlimited

	Unlimited bool     // always granted, and not counted
	Shadow    bool     // decided, and granted all the same
	Quota     bool     // refuses a request only when all rules with Quota do
	Name      string   // by which others replace it, and which answers tell
	Replaces  []string // names of rules that do not apply to a request for which this one does
	Metadata  map[string]any

	// History names the rule's histories within its domain, as a limit does: rules
	// for the same keys share them, so that a further rule for some value goes on
	// from what was counted for it.
	History string
	// Varying are the indices of the entries whose values tell histories apart: all
	// but those matched by a wildcard whose values share a threshold.
	Varying []int

	// Levels are the names of the descriptors on its path as metrics have them: key,
	// or key_value. Told are the indices of those whose values metrics tell apart:
	// with detailed_metric all that Varying has, otherwise those with value_to_metric.
	Levels []string
	Told   []int

	Keys []string // of the descriptors on its path
}

// Domain is the rules of one domain.
type Domain struct {
	Name   string
	Policy string  // names its histories, as a policy does; no policy file can have it
	Rules  []*Rule // in the order of the file
	root   node
}

// Config is the rules of all domains. It never changes.
type Config struct {
	Source   string    // where it is from, for people
	Files    int       // how many were read
	Domains  []*Domain // in the order of the files' names
	Warnings []string  // what is in the files and has no effect

	byName map[string]*Domain
}

// Domain returns the domain of that name, or nil. A nil Config has none.
func (c *Config) Domain(name string) *Domain {
	if c == nil {
		return nil
	}
	return c.byName[name]
}

// Rules is the number of rules in all domains.
func (c *Config) Rules() int {
	n := 0
	if c == nil {
		return n
	}
	for _, d := range c.Domains {
		n += len(d.Rules)
	}
	return n
}
