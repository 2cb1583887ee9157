package weirredis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// Script is a Lua script that a Conn runs.
type Script struct {
	Name string
	Text string
	SHA1 string // hash of Text, in lower-case hexadecimal, for EVALSHA
}

// The scripts run as they stand in the folder lua.
var (
	//go:embed lua/decide.lua
	decideText string
	//go:embed lua/reset.lua
	resetText string
	//go:embed lua/check.lua
	checkText string

	decideScript = newScript("decide", decideText)
	resetScript  = newScript("reset", resetText)
	checkScript  = newScript("check", checkText)
)

// newScript makes a script of its text.
func newScript(name, text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA1: hex.EncodeToString(sum[:])}
}
