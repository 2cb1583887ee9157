package main

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/stat"
)

// duel measures a form and the yardstick's script in turns of a few milliseconds on one
// server, so that disturbances of the machine affect both.
type duel struct {
	form, yardstick line
	keys, others    *fleet
	perSecond       float64 // decisions of the form, by the clock
}

func newDuel(c *redis.Client) *duel {
	rate := must(redispeers.FormNamed(redispeers.RedisRate))
	return &duel{
		yardstick: newLine(c, rate.New(plenty, time.Second)),
		others:    newFleet(scale.logs, 1, time.Minute, time.Now()),
	}
}

// challenge sets the form's decider and the fleet of its keys.
func (d *duel) challenge(decider redispeers.Decider, f *fleet) {
	d.form, d.keys = newLine(d.yardstick.c, decider), f
}

// fight takes turns until the form has run for length, at least one turn each.
func (d *duel) fight(length time.Duration) contest.Metrics {
	var form, yardstick []float64
	before := d.keys.total
	start := time.Now()
	for spent := time.Duration(0); spent < length; {
		begun := time.Now()
		form = append(form, d.form.cost(scale.turn, d.keys.request))
		spent += time.Since(begun)
		yardstick = append(yardstick, d.yardstick.cost(scale.turn, d.others.request))
	}
	d.perSecond = float64(d.keys.total-before) / time.Since(start).Seconds()
	return contest.Metrics{serverCPU: stat.Median(form), ofYardstick: stat.Ratio(form, yardstick)}
}

// pace returns the time of a decision of the form by the clock with nearly empty logs.
// It includes the yardstick's turns.
func (d *duel) pace() time.Duration {
	d.fight(scale.warming)
	return time.Duration(float64(time.Second) / d.perSecond)
}

// held returns the number of entries in the log of the last key, or -1 for a form
// without a log.
func (d *duel) held() float64 {
	last := d.keys.again((d.keys.next + len(d.keys.keys) - 1) % len(d.keys.keys))
	n := d.form.held(last)
	if n < 0 {
		return -1
	}
	return float64(n) / float64(last.N)
}
