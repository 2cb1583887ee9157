package weirredis

// Option adjusts an Engine.
type Option func(*Engine)
