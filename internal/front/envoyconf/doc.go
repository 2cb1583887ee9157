// Package envoyconf reads the configuration of Envoy's reference rate limit service,
// github.com/envoyproxy/ratelimit, unchanged: files of YAML with a domain and a
// tree of descriptors each. It finds the rule for a request's descriptor with the
// reference's precedence.
//
// A Config never changes, so it can be swapped for another one while requests are
// under way. It is all or nothing: one bad file refuses the whole new Config.
//
// The bargain: files are the operator's own, so they are read with a YAML library
// that knows what the reference's knows (anchors, merge keys, yes and no), within
// bounds of size, and not with the strict reader of Weir's policy files. What the
// reference would refuse is refused, with file, line and column; what it silently
// ignores is a warning.
//
// It decides nothing; internal/front/envoy does.
package envoyconf
