// Package store opens the store that an operator names by a word or a URL: the
// memory of the process, or Redis as one server, behind Sentinels, or as a Cluster.
//
//	memory
//	redis://[user[:password]@]host[:port][/db]
//	redis+sentinel://[user[:password]@]host[:port],…/master-name[?db=N]
//	redis+cluster://[user[:password]@]host[:port],…
//
// rediss, rediss+sentinel and rediss+cluster speak TLS; ?ca=FILE names the
// authority to trust in place of the system's. A password is better kept out of
// command lines: where the URL has none, WEIR_REDIS_USERNAME and
// WEIR_REDIS_PASSWORD are used. Neither is ever part of an error or a name.
package store
