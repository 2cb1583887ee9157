// Package policy reads policy files, in which a limit is one line in the words a
// person would say:
//
//	version: 1
//	policies:
//	  push-notifications:
//	    about: Teachers get at most ten pushes a minute, never two in the same breath.
//	    limit: 10 per minute per teacher, 3s apart
//	  slack-alerts:
//	    limits:
//	      channel:  100 per 30m
//	      category: 10 per 30m per category
//
// A limit is
//
//	COUNT [unit] per WINDOW {per KEY} [, fixed [from the first hit]] [, DURATION apart] [, then block DURATION]
//
// where a window is second, minute, hour, day, week or a length such as 250ms,
// 90s, 30m, 24h, 7d, and digits may be grouped as in 200_000. Windows roll unless
// the limit says fixed: then they begin with the calendar, in UTC, or with the first
// unit after the last one ended, and up to twice the count passes across their edge.
// The unit is for people; the keys are what the limit counts by, and none means
// that all callers share it.
//
// In place of a count, unlimited allows weir.MaxUnits, so that it never refuses.
// A window is then optional: unlimited per user keeps the key in its place and
// remembers nothing to speak of; unlimited per day per user goes on counting, for
// dashboards and for the day a number comes back.
//
// then block 1h is what a refusal brings with it: whoever the limit has refused once
// is refused for an hour, whatever room there is by then.
//
// A policy may also have plans, overrides, a shadow and a count of reports, and the
// file tests: docs/policies.md says what they mean, Plan, Override and Test what
// becomes of them here.
//
// Parse and Load turn a file into weir.Policies, Sentence turns a limit back into
// its line, Schema is for editors that check while one types.
//
// # The bargain
//
// A file is taken whole or not at all, and read strictly: an unknown word, a
// duplicate, an anchor, a second document or a limit that contradicts itself is
// an *Error with file, line and column, the line, a caret and the next step. A
// typing mistake never becomes a limit that nobody meant. In return some YAML
// that other programs read is refused here; internal/strictyaml says which.
//
// There are no expressions, variables or includes: a policy file is read by the
// people on call. Who needs them generates the long form of a limit,
//
//	limit: {max: 10, window: 1m, per: [teacher], apart: 3s}
//
// which says the same. Any file of up to MaxBytes is read or refused in a
// fraction of a second and less than 100 MiB, whoever wrote it.
package policy
