'use strict'

const net = require('node:net')

// ipKeyGenerator returns the value under which a client address counts: an IPv4 address as it is,
// also if it is written as an IPv6 one, and an IPv6 address by its network, because a client has
// all addresses of one. A subnet of false, 0 or 128 leaves IPv6 addresses as they are.
function ipKeyGenerator(ip, subnet = 56) {
  if (!net.isIPv6(ip)) return ip
  const groups = groupsOf(ip)
  const isMapped = groups.slice(0, 5).every((g) => g === 0) && groups[5] === 0xffff
  if (isMapped) return [groups[6] >> 8, groups[6] & 255, groups[7] >> 8, groups[7] & 255].join('.')
  const bits = subnet || 128
  const network = groups.map((g, i) => {
    const kept = Math.min(Math.max(bits - 16 * i, 0), 16)
    return g & (0xffff << (16 - kept)) & 0xffff
  })
  return new URL(`http://[${network.map((g) => g.toString(16)).join(':')}]`).hostname.slice(1, -1)
}

// groupsOf returns the eight numbers of an IPv6 address.
function groupsOf(ip) {
  const [address] = ip.split('%')
  const hex = new URL(`http://[${address}]`).hostname.slice(1, -1) // without a dotted part, in short
  const [left, right = ''] = hex.split('::')
  const numbers = (text) => (text === '' ? [] : text.split(':').map((g) => parseInt(g, 16)))
  const before = numbers(left)
  const after = hex.includes('::') ? numbers(right) : []
  return [...before, ...Array(8 - before.length - after.length).fill(0), ...after]
}

module.exports = { ipKeyGenerator }
