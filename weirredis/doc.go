// Package weirredis decides on Redis, for limits that several processes share.
package weirredis
