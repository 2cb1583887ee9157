package main

import "math/rand/v2"

// keySize is the length of every key in bytes, about that of an IP address, a
// user number or half a UUID.
const keySize = 16

// makeKeys returns n different keys, cut from one string: they cost the collector nothing.
func makeKeys(n int) []string {
	all := make([]byte, 0, n*keySize)
	for i := range n {
		all = appendKey(all, i)
	}
	text := string(all)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = text[i*keySize : (i+1)*keySize]
	}
	return keys
}

// makeKey returns the i-th key as an allocation of its own. A limiter that stores the key
// keeps the allocation alive.
func makeKey(i int) string { return string(appendKey(nil, i)) }

// appendKey appends "key-" and i in twelve digits.
func appendKey(b []byte, i int) []byte {
	b = append(b, "key-000000000000"...)
	for at := len(b) - 1; i > 0; at-- {
		b[at] = byte('0' + i%10)
		i /= 10
	}
	return b
}

// zipf returns twice as many keys, drawn by Zipf's law. A uniform choice among them then
// costs as little as one among the keys themselves.
func zipf(keys []string) []string {
	const exponent = 1.01 // the generator needs one above 1
	law := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), exponent, 1, uint64(len(keys)-1))
	drawn := make([]string, 2*len(keys))
	for i := range drawn {
		drawn[i] = keys[law.Uint64()]
	}
	return drawn
}
