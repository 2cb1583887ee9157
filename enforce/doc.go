// Package enforce applies the policies of a file to an engine, with every feature of the
// file: tiers (plans), overrides, shadows, blocks, counts of reports, the words for
// outages, and reload while the program runs. Every front end of weir uses it.
//
//	set, err := enforce.Open("weir.yaml", weir.NewMemory())
//	out, err := set.Check(ctx, "login", enforce.Values{"user": "ann"}, 1)
//
// A [Set] holds all policies of a file. A [Rule] is one of them, for programs that look
// the policy up once.
//
// A policy, its tiers and its overrides share one set of histories (R12). So a key that
// changes its tier keeps the units it has used. A limit that blocks keeps its blocks in
// a second history. Each attempt under such a policy costs two calls of the engine, and
// the denial that begins a block costs one more.
//
// # Trade-off
//
// Package weir alone is enough for limits that are written in Go: it has fewer types and
// skips the lookup of policy and tier. Package enforce compiles each policy once, and
// each pair of a tier and an override at its first use, which takes a few microseconds.
// The clock of this process, not that of the store, decides whether an override has
// expired. At an override's last instant, processes may differ by the error of their
// clocks.
package enforce
