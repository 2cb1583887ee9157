package envoyconf

import "time"

// Rule is one descriptor of the configuration with a rate_limit.
type Rule struct {
	Path  string // its name in the reference's metrics: domain.key_value.key
	Index int    // in Domain.Rules

	Requests   uint32        // per period; 0 denies everything
	Unit       Unit          // 0 with Unlimited
	Multiplier uint32        // units in the period; 0 = not given, which is 1
	Window     time.Duration // the period; 0 with Unlimited

	Unlimited bool     // always granted, not counted
	Shadow    bool     // decided, but always granted
	Quota     bool     // denies a request only when all rules with Quota do
	Name      string   // its name in answers and in Replaces
	Replaces  []string // names of rules that this rule disables for a request

	// History is the limit name of the rule's histories within its domain. Rules for the
	// same keys share it, so a new rule for one value continues its count.
	History string
	// Varying are the indices of the entries that have a history for each value: all
	// except those that match a wildcard with share_threshold.
	Varying []int

	// Levels are the names of the descriptors on its path in metrics: key, or key_value.
	Levels []string
	// MetricLevels are the indices of the levels with a metric for each value: Varying
	// with detailed_metric, otherwise those with value_to_metric.
	MetricLevels []int

	Keys []string // of the descriptors on its path
}

// Domain holds the rules of one domain.
type Domain struct {
	Name   string
	Policy string  // the policy name of its histories; no policy file can have it
	Rules  []*Rule // in the order of the file
	root   node
}

// Config holds the rules of all domains. It never changes.
type Config struct {
	Source   string    // its path, for messages
	Files    int       // number of files read
	Domains  []*Domain // sorted by the names of the files
	Warnings []string  // words in the files without effect

	byName map[string]*Domain
	bytes  int // of all files so far, with aliases followed
}

// Domain returns the domain of that name, or nil. A nil Config has none.
func (c *Config) Domain(name string) *Domain {
	if c == nil {
		return nil
	}
	return c.byName[name]
}

// Rules returns the number of rules in all domains.
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
