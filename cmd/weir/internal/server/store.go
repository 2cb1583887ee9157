package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/documents"
)

// firstPoll bounds the wait for the overrides of the store before the first request is served.
// If the store does not answer in time, they come into force later.
const firstPoll = time.Second

// follow reads the overrides of the store. Until ctx is done it continues to read them and
// writes heartbeats. wait returns when both have ended.
func (s *Server) follow(ctx context.Context) (wait func()) {
	timed, cancel := context.WithTimeout(ctx, firstPoll)
	defer cancel()
	s.overrides.Poll(timed) // Watch logs the error
	var helpers sync.WaitGroup
	helpers.Go(func() { s.overrides.Watch(ctx, s.logOverrides, s.logLostOverrides) })
	s.instances.listen(s.Addr())
	if s.instances.shared {
		helpers.Go(func() { s.instances.beat(ctx) })
	}
	return helpers.Wait
}

// logOverrides logs that the overrides of the store cannot be read, or that they can be read
// again.
func (s *Server) logOverrides(err error) {
	if err != nil {
		s.log.Error("the overrides of the store cannot be read; those that are known stay in force",
			"error", err)
		return
	}
	s.log.Info("the overrides of the store are read again")
}

// logLostOverrides logs that overrides do not apply any more because the store has lost them.
func (s *Server) logLostOverrides(n int) {
	s.log.Error("the store has lost its last changes, and with them overrides, which no longer "+
		"apply; set them again, with the numbers of the earlier lines about overrides",
		"overrides", n)
}

// beatEvery is the time between two heartbeats. An instance is listed for beatTTL after its last.
const (
	beatEvery = 5 * time.Second
	beatTTL   = 3 * beatEvery
)

// instancesCollection is the name of the collection of heartbeats in the store.
const instancesCollection = "instances"

// instances lists the weir serve processes that use a store. On a shared store each process
// writes a document that expires.
type instances struct {
	engine  engine.Engine
	shared  bool // other processes may use the store
	name    string
	started time.Time
	version string

	mu      *sync.Mutex   // protects the following
	address string        // the main listener's; "" before Listen
	wrote   time.Duration // duration of the last heartbeat's write; 0 if none or failed
}

// newInstances returns the instances of a configuration. The name of this process is unique,
// also among containers on hosts with the same name.
func newInstances(c *Config) instances {
	host, _ := os.Hostname() // without a host the name is unique as well
	return instances{
		engine:  c.Engine,
		shared:  c.Memory == nil && c.Disk == nil,
		name:    cmp.Or(host, "weir") + "-" + strings.ToLower(rand.Text()[:6]),
		started: time.Now(),
		version: c.Version,
		mu:      new(sync.Mutex),
	}
}

// listen sets the address of the main listener.
func (i *instances) listen(address string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.address = address
}

// own returns this instance.
func (i *instances) own() httpapi.Instance {
	i.mu.Lock()
	defer i.mu.Unlock()
	return httpapi.Instance{
		Name:    i.name,
		Version: i.version,
		Started: httpapi.Stamp(i.started),
		Listen:  i.address,
	}
}

// beat writes heartbeats until ctx is done, and then deletes the document. It logs no errors,
// because other lines of the log report an outage.
func (i *instances) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	text, _ := json.Marshal(i.own()) // encoding texts cannot fail
	d := engine.Document{Name: i.name, Version: engine.AnyVersion, TTL: beatTTL}
	write := func(ctx context.Context, text string) {
		timed, cancel := context.WithTimeout(ctx, beatEvery)
		defer cancel()
		d.Text = text
		began := time.Now()
		_, err := documents.Write(timed, i.engine, instancesCollection, d)
		i.setWrote(time.Since(began), err)
	}
	for {
		write(ctx, string(text))
		select {
		case <-tick.C:
		case <-ctx.Done():
			timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			write(timed, "")
			return
		}
	}
}

// setWrote stores the duration of the last heartbeat's write, or 0 after an error.
func (i *instances) setWrote(took time.Duration, err error) {
	if err != nil {
		took = 0
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wrote = took
}

// latency returns the duration of the last heartbeat's write, or 0 if there is none.
func (i *instances) latency() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.wrote
}

// list returns all instances, this one first. If the store fails, it returns this one and the
// error.
func (i *instances) list(ctx context.Context) ([]httpapi.Instance, error) {
	own := i.own()
	own.Seen = httpapi.Stamp(time.Now())
	own.Here = true
	all := []httpapi.Instance{own}
	if !i.shared {
		return all, nil
	}
	found, err := documents.Read(ctx, i.engine, instancesCollection, 0)
	if err != nil {
		return all, err
	}
	for _, d := range found.Documents {
		var other httpapi.Instance
		if d.Name == i.name || json.Unmarshal([]byte(d.Text), &other) != nil {
			continue
		}
		other.Name = d.Name
		other.Seen = httpapi.Stamp(time.UnixMicro(d.Version)) // by the clock of the store
		all = append(all, other)
	}
	slices.SortFunc(all[1:], func(a, b httpapi.Instance) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
