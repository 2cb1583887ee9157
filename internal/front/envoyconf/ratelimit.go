package envoyconf

import "go.yaml.in/yaml/v3"

// limit reads the descriptor's rate_limit; nil if it has none.
func (d *descriptor) limit(m members, p *place) (*Rule, error) {
	n := m.at("rate_limit")
	if n == nil || isNull(n) {
		return nil, nil
	}
	words, err := d.words(n, "rate_limit", limitWords, 0)
	if err != nil {
		return nil, err
	}
	r := &Rule{Path: p.path, File: d.reader.file, Line: d.node.Line,
		Shadow: d.shadow, Quota: d.quota, Metadata: d.metadata,
		History: HistoryName("rule", p.keys, p.shared), Varying: p.varying(),
		Levels: p.names, MetricLevels: p.metrics, Keys: p.keys}
	if d.detailed {
		r.MetricLevels = r.Varying
	}
	if n := words.at("unlimited"); n != nil {
		if r.Unlimited, err = d.flag(n, "unlimited"); err != nil {
			return nil, err
		}
	}
	if err := d.period(r, n, words); err != nil {
		return nil, err
	}
	if n := words.at("name"); n != nil {
		if r.Name, err = d.text(n, "name"); err != nil {
			return nil, err
		}
	}
	if n := words.at("replaces"); n != nil {
		r.Replaces, err = d.replaces(n, r.Name)
	}
	return r, err
}

// period reads the number of requests and the period.
func (d *descriptor) period(r *Rule, at *yaml.Node, words members) error {
	word, n := "", words.at("unit")
	if n != nil {
		var err error
		if word, err = d.text(n, "unit"); err != nil {
			return err
		}
		at = n
	}
	if unit, ok := ParseUnit(word); ok {
		r.Unit = unit
	}
	switch {
	case r.Unlimited && word != "":
		return d.fail(at, "leave unit out", "should not specify rate limit unit when unlimited")
	case r.Unlimited:
		return nil
	case r.Unit == 0:
		return d.fail(at, "use "+unitWords, "invalid rate limit unit '%s'", word)
	}
	return d.count(r, at, words)
}

// count reads the numbers of a limit with a unit.
func (d *descriptor) count(r *Rule, at *yaml.Node, words members) (err error) {
	n := words.at("requests_per_unit")
	if n == nil {
		return d.fail(at, "write 0 to refuse everything", "requests_per_unit is missing")
	}
	if r.Requests, err = d.number(n, "requests_per_unit"); err != nil {
		return err
	}
	multiplier := uint32(1)
	if n := words.at("unit_multiplier"); n != nil {
		if multiplier, err = d.number(n, "unit_multiplier"); err != nil {
			return err
		}
		r.Multiplier, at = multiplier, n
	}
	window, problem := Period(r.Unit, multiplier)
	if problem != "" {
		return d.fail(at, "", "unit_multiplier: %s", problem)
	}
	r.Window = window
	return nil
}

// replaces reads a list of names of other rules.
func (d *descriptor) replaces(n *yaml.Node, own string) (names []string, err error) {
	list, err := d.sequence(n, "replaces")
	if err != nil {
		return nil, err
	}
	for _, each := range list {
		words, err := d.words(each, "replaces", replaceWords, 0)
		if err != nil {
			return nil, err
		}
		name := ""
		if n := words.at("name"); n != nil {
			if name, err = d.text(n, "name"); err != nil {
				return nil, err
			}
		}
		switch name {
		case "":
			return nil, d.fail(each, "", "should not have an empty replaces entry")
		case own:
			return nil, d.fail(each, "", "replaces should not contain name of same descriptor")
		}
		names = append(names, name)
	}
	return names, nil
}
