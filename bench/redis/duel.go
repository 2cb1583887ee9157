package main

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/bench/internal/stat"
)

// duel lets a form and the yardstick's script take turns on one server, a few
// milliseconds each, so disturbances of the machine affect both.
type duel struct {
	form, yardstick line
	asks, others    *fleet
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
	d.form, d.asks = newLine(d.yardstick.c, decider), f
}

// fight takes turns until the form has had so much time, one turn at least.
func (d *duel) fight(length time.Duration) contest.Metrics {
	var form, yardstick []float64
	asked := d.asks.total
	start := time.Now()
	for spent := time.Duration(0); spent < length; {
		begun := time.Now()
		form = append(form, d.form.cost(scale.turn, d.asks.ask))
		spent += time.Since(begun)
		yardstick = append(yardstick, d.yardstick.cost(scale.turn, d.others.ask))
	}
	d.perSecond = float64(d.asks.total-asked) / time.Since(start).Seconds()
	return contest.Metrics{serverCPU: stat.Median(form), ofYardstick: stat.Ratio(form, yardstick)}
}

// pace is how long a decision of the form takes by the clock, turns of the
// yardstick included, with nearly empty logs.
func (d *duel) pace() time.Duration {
	d.fight(scale.warming)
	return time.Duration(float64(time.Second) / d.perSecond)
}

// held is how many entries the log of the key asked last holds, -1 where there is
// none to count.
func (d *duel) held() float64 {
	last := d.asks.again((d.asks.next + len(d.asks.keys) - 1) % len(d.asks.keys))
	n := d.form.held(last)
	if n < 0 {
		return -1
	}
	return float64(n) / float64(last.N)
}
