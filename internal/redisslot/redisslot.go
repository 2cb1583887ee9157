// Package redisslot knows the slots of a Redis Cluster: for the keys of package weirredis, and for
// the report of weir validate.
package redisslot

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/engine"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// Pinned reports whether a Cluster keeps all histories of the rules in one slot, and so on
// one server. This is so if the limits have no dimension in common.
func Pinned(p *engine.Compiled) bool { return len(p.Limits[0].Shared) == 0 }

// Describe returns a sentence about the slots of the rules' histories in a Cluster.
func Describe(p *engine.Compiled) string {
	shared := p.Limits[0].Shared
	if len(shared) > 0 {
		names := make([]string, len(shared))
		for i, dim := range shared {
			names[i] = p.Dimensions[dim]
		}
		return fmt.Sprintf("policy %s is spread over the slots of a Cluster by %s",
			p.Name, strings.Join(names, " and "))
	}
	because := "its limits have no dimension in common"
	for _, l := range p.Limits {
		if len(l.By) == 0 {
			because = fmt.Sprintf("limit %s counts all callers together", l.Name)
			break
		}
	}
	return fmt.Sprintf("policy %s is pinned to slot %d of a Cluster, and so to one server: %s",
		p.Name, Of("{"+p.Name+"}"), because)
}

// Of returns the slot of a key in a Redis Cluster: the CRC16 of the text between its
// first "{" and the next "}", or of the whole key if that text is empty or missing.
// (Redis Cluster specification, "Hash tags".)
func Of(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
