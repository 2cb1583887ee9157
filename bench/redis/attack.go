package main

import (
	"sync"
	"time"

	"github.com/weirlimit/weir/bench/internal/contest"
	"github.com/weirlimit/weir/bench/internal/redispeers"
	"github.com/weirlimit/weir/internal/adversary"
)

const (
	attacked = "most grants in one window"

	most = "most" // grants inside one span shorter than the window

	attackLimit   = 100
	attackWindow  = 200 * time.Millisecond
	attackCallers = 16
)

// attack is the workload that counts the grants in one window.
func attack() contest.Workload {
	return contest.Workload{Name: attacked, Contestants: names(), Run: runAttack,
		About: "one request, then 16 callers send requests without a pause from 0.94 of its window on; limit 100 per 200ms"}
}

// runAttack counts grants from outside, by when a call was made and when it
// returned: noise can only hide grants, never invent them.
func runAttack(contestant string) contest.Metrics {
	c := emptyServer()
	defer c.Close()
	l := must(must(redispeers.Named(contestant)).Open(address, attackLimit, attackWindow))
	defer l.Close()
	base := time.Now()
	first := attacker{l: l, base: base}
	first.send()
	from := time.Duration(adversary.Edge * float64(attackWindow))
	until := from + time.Duration(scale.windows)*attackWindow
	attackers := make([]attacker, attackCallers)
	var wg sync.WaitGroup
	for i := range attackers {
		attackers[i] = attacker{l: l, base: base}
		wg.Go(func() {
			time.Sleep(from - time.Since(base))
			for time.Since(base) < until {
				attackers[i].send()
			}
		})
	}
	wg.Wait()
	grants := first.grants
	for _, a := range attackers {
		grants = append(grants, a.grants...)
	}
	return contest.Metrics{most: float64(adversary.MaxGrants(grants, attackWindow))}
}

// attacker is one caller, with its grants.
type attacker struct {
	l      redispeers.Limiter
	base   time.Time // instants are nanoseconds since base, on the monotonic clock
	grants []adversary.Grant
}

// send makes one request. An error grants nothing.
func (a *attacker) send() {
	call := time.Since(a.base)
	if yes, err := a.l.Allow(ctx, "key"); yes && err == nil {
		a.grants = append(a.grants, adversary.Grant{Call: int64(call), Return: int64(time.Since(a.base))})
	}
}
