// Package store opens a store by a name or a URL: the memory of the process, a directory,
// or Redis as a single server, behind Sentinels, or as a Cluster.
//
//	memory
//	file:/var/lib/weir[?sync=always|100ms|off]
//	redis://[user[:password]@]host[:port][/db]
//	redis+sentinel://[user[:password]@]host[:port],…/master-name[?db=N]
//	redis+cluster://[user[:password]@]host[:port],…
//
// rediss, rediss+sentinel and rediss+cluster use TLS; ?ca=FILE trusts the authorities of a
// file in place of the system's. To keep passwords out of command lines, a URL without
// them uses WEIR_REDIS_USERNAME and WEIR_REDIS_PASSWORD. No error and no name of a store
// contains either.
package store
