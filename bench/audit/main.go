// Command audit runs weir audit against services with other limiters: the most requests
// that "20 per second" lets through over HTTP.
//
//	go run ./audit
//	go run ./audit -only express-rate-limit
//
// The services are nginx, small applications of Node, Python and Go, and weir serve. All are
// audited at one time, because an audit sleeps nearly all the time and noise never invents a grant.
// It prints Markdown to stdout. The exit code is 1 if Weir allowed more than its limit.
//
// It needs nginx, Node with npm, Python 3 with pip, and a Unix.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"

	"github.com/weirlimit/weir/bench/internal/report"
)

const (
	limit    = 20
	windowMS = 1000
)

func main() {
	only := flag.String("only", "", "audit only the service of this `name`")
	flag.Parse()
	if err := audit(*only); err != nil {
		fmt.Fprintln(os.Stderr, "audit:", err)
		os.Exit(1)
	}
}

// finding is the part of weir audit --json that is printed.
type finding struct {
	Allowed int    `json:"allowed"`
	Verdict string `json:"verdict"`
	Worst   struct {
		Move string `json:"move"`
	} `json:"worst"`
	Requests int `json:"requests"`
}

func audit(only string) error {
	services := all()
	if only != "" {
		services = slices.DeleteFunc(services, func(s service) bool { return s.name != only })
	}
	if len(services) == 0 {
		return fmt.Errorf("no service %q; see services.go", only)
	}
	s, err := newSite()
	if err != nil {
		return err
	}
	defer s.close()
	found := make([]*finding, len(services))
	failed := make([]error, len(services))
	var wg sync.WaitGroup
	for i, service := range services {
		wg.Go(func() {
			if found[i], failed[i] = s.audit(service); failed[i] != nil {
				failed[i] = fmt.Errorf("%s: %w", service.name, failed[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	table := report.Table("limiter", "version", "settings", "**worst second**", "found by")
	for i, service := range services {
		f := found[i]
		by := f.Worst.Move
		if f.Verdict == "held" {
			by = "–"
		}
		worst := fmt.Sprintf("**%d**", f.Allowed)
		table.Row(service.name, service.version(s), service.settings, worst, by)
	}
	table.Print(os.Stdout)
	if n := found[0].Allowed; services[0].name == weirServe && n > limit {
		return fmt.Errorf("weir let %d of %d through: that is a bug in weir", n, limit)
	}
	return nil
}

// audit starts a service and audits it.
func (s *site) audit(service service) (*finding, error) {
	url, stop, err := service.start(s)
	if err != nil {
		return nil, err
	}
	defer stop()
	cmd := exec.Command(s.weir, "audit", "--json", "--url", url,
		"--limit", fmt.Sprint(limit), "--window", fmt.Sprintf("%dms", windowMS))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		err = nil // the limit was broken
	}
	if err != nil {
		return nil, err
	}
	f := &finding{}
	return f, json.Unmarshal(out, f)
}
