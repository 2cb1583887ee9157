// Package envoyconf reads the configuration of Envoy's reference rate limit service,
// github.com/envoyproxy/ratelimit, unchanged: YAML files with a domain and a tree of
// descriptors each. It finds the rule for a request's descriptor with the reference's
// precedence. Package internal/front/envoy decides by the rule.
//
// A Config never changes, so a reload can replace it while requests are in flight. One
// bad file rejects the whole new Config.
//
// Trade-off: the files are trusted, so the YAML library reads them as the reference does
// (anchors, merge keys, yes and no), within bounds of size. The alternative, the strict
// reader of Weir's policy files, rejects valid files of the reference. Files that the
// reference rejects are rejected with file, line and column; words that it silently
// ignores are a warning.
package envoyconf
