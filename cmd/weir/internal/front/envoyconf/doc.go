// Package envoyconf reads the configuration of Envoy's reference rate limit service,
// github.com/envoyproxy/ratelimit, unchanged: YAML files with a domain and a tree of
// descriptors each. It finds the rule for a request's descriptor with the reference's
// precedence. Package cmd/weir/internal/front/envoy decides by the rule.
//
// A Config never changes, so a reload can replace it while requests are in flight. One
// bad file rejects the whole new Config.
//
// Trade-off: anchors, merge keys, yes and no are read as in the reference, within bounds of
// size. Policy files have none of them, but files of the reference do. Files that the
// reference rejects are rejected with file, line and column; words that it silently ignores
// are a warning.
package envoyconf
