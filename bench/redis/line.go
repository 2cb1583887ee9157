package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/redisserver"
)

// line is one connection over which decisions are sent many at a time. Its cost is the
// server's work alone.
type line struct {
	c *redis.Client
	d redispeers.Decider
}

const (
	inPipeline = 64  // decisions sent together in a measurement
	inFilling  = 256 // decisions sent together to fill logs
)

func newLine(c *redis.Client, d redispeers.Decider) line {
	for _, text := range d.Scripts() {
		must(c.ScriptLoad(ctx, text).Result())
	}
	return line{c, d}
}

// send sends n decisions together and awaits their answers.
func (l line) send(n int, next func() redispeers.Request) {
	l.sendAll(n, func() [][]any { return l.d.Commands(next()) })
}

// sendAll sends the result of commands n times in one pipeline and reads the answers.
func (l line) sendAll(n int, commands func() [][]any) {
	p := l.c.Pipeline()
	for range n {
		for _, command := range commands() {
			p.Do(ctx, command...)
		}
	}
	if _, err := p.Exec(ctx); err != nil {
		panic(fmt.Sprintf("the server rejected the call: %v", err))
	}
}

// until sends decisions for a while and returns how many.
func (l line) until(length time.Duration, next func() redispeers.Request) int {
	n := 0
	for start := time.Now(); time.Since(start) < length; n += inPipeline {
		l.send(inPipeline, next)
	}
	return n
}

// cost sends decisions for a while, at least one batch, and returns the server's
// nanoseconds per decision.
func (l line) cost(length time.Duration, next func() redispeers.Request) float64 {
	before := must(redisserver.CPU(ctx, l.c))
	n := l.until(length, next)
	return float64(must(redisserver.CPU(ctx, l.c))-before) / float64(n)
}

// held returns the number of units in the key's log, or -1 without a log.
func (l line) held(a redispeers.Request) int64 {
	h, ok := l.d.(redispeers.Holder)
	if !ok {
		return -1
	}
	n, err := h.Held(ctx, l.c, a)
	if errors.Is(err, redispeers.ErrNoLog) {
		return -1
	}
	return must(n, err)
}
