package rls

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// AppendMetrics appends counters in the text format of Prometheus. Labels are words
// of the configuration; a key is in them only for rules with detailed_metric, and
// then for a bounded number of keys.
func (s *Service) AppendMetrics(b []byte) []byte {
	c := &s.counts
	b = appendHelp(b, "weir_envoy_requests_total", "Requests to the rate limit service by what became of them; error means that no decision could be made.")
	for _, each := range []struct {
		outcome string
		n       int64
	}{{"ok", c.ok.Load()}, {"over_limit", c.over.Load()}, {"error", c.failed.Load()}, {"bad_input", c.badInputs.Load()}} {
		b = appendSeries(b, "weir_envoy_requests_total", each.n, "outcome", each.outcome)
	}
	b = appendHelp(b, "weir_envoy_unknown_domains_total", "Requests for a domain that is neither configured nor a policy; they are answered OK.")
	b = appendSeries(b, "weir_envoy_unknown_domains_total", c.unknownDomains.Load())
	b = appendHelp(b, "weir_envoy_kept_hits_total", "Hits of refused requests that stay charged since the store could not be asked to take them back.")
	b = appendSeries(b, "weir_envoy_kept_hits_total", c.kept.Load())
	b = appendHelp(b, "weir_envoy_hits_total", "Hits by the rule that decided them; shadowed were over the limit of a rule in shadow_mode.")
	domains := s.state.Load().domains
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		for _, l := range domains[name].limits {
			b = appendTally(b, name, strings.TrimPrefix(l.rule.Path, name+"."), l.tally)
			b = appendDetails(b, name, l.tally)
		}
	}
	return b
}

// appendDetails appends the tallies of a rule with detailed_metric, by name.
func appendDetails(b []byte, domain string, t *tally) []byte {
	type detail struct {
		name string
		*tally
	}
	var all []detail
	t.details.Range(func(name, t any) bool {
		all = append(all, detail{name.(string), t.(*tally)})
		return true
	})
	slices.SortFunc(all, func(a, b detail) int { return cmp.Compare(a.name, b.name) })
	for _, d := range all {
		b = appendTally(b, domain, strings.TrimPrefix(d.name, domain+"."), d.tally)
	}
	return b
}

func appendTally(b []byte, domain, rule string, t *tally) []byte {
	for _, each := range []struct {
		outcome string
		n       int64
	}{{"granted", t.granted.Load()}, {"denied", t.denied.Load()}, {"shadowed", t.shadowed.Load()}, {"refunded", t.refunded.Load()}} {
		b = appendSeries(b, "weir_envoy_hits_total", each.n, "domain", domain, "rule", rule, "outcome", each.outcome)
	}
	return b
}

func appendHelp(b []byte, name, help string) []byte {
	b = append(b, "# HELP "+name+" "+help+"\n"...)
	return append(b, "# TYPE "+name+" counter\n"...)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// appendSeries appends one number; labels are names and values in turn.
func appendSeries(b []byte, name string, n int64, labels ...string) []byte {
	b = append(b, name...)
	for i := 0; i < len(labels); i += 2 {
		if i == 0 {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		b = append(append(b, labels[i]...), `="`...)
		b = append(append(b, labelEscapes.Replace(labels[i+1])...), '"')
	}
	if len(labels) > 0 {
		b = append(b, '}')
	}
	return append(strconv.AppendInt(append(b, ' '), n, 10), '\n')
}
