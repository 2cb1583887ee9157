package weirredis

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/misuse"
)

// Report describes a server.
type Report struct {
	Address   string        // "" if the Conn has none
	Server    string        // such as "Redis 7.0.15" or "Valkey 8.0.1"
	Mode      string        // standalone, sentinel or cluster
	Eviction  string        // maxmemory-policy; "" if the server hides it
	MaxMemory int64         // bytes, 0 = no bound
	Offset    time.Duration // the server's clock minus this machine's, ± half of RoundTrip
	RoundTrip time.Duration // duration of the call
	Warnings  []string      // problems that do not make the server unfit
}

// bigOffset is the difference between clocks from which Check warns. Decisions use only
// the server's clock, but people compare logs.
const bigOffset = time.Second

// Check reports whether the server is fit for limits. The error wraps ErrServer if the server
// is too old, evicts keys, or refuses a command of the scripts. It is a StoreError if the server
// is unreachable or, as during a failover, a replica. It has the next step. In a Cluster one
// server is checked. The Report is set beside an ErrServer, too.
//
// After the eviction of a history that still counts, a window may hold twice its limit.
//
// New does not check, so that a program can start while the server is down.
func (e *Engine) Check(ctx context.Context) (Report, error) {
	if e == nil || e.conn == nil || ctx == nil {
		return Report{}, misuse.Error(ctx, "weirredis.New")
	}
	r := Report{Address: e.address()}
	if err := e.learn(ctx); err != nil {
		return r, err
	}
	sent := e.now()
	key := e.prefix + layout + "}" // none of Weir's, because no policy has an empty name
	text, err := e.eval(ctx, checkScript, nil, []string{key})
	r.RoundTrip = e.now().Sub(sent)
	if err != nil {
		return r, &StoreError{Address: r.Address, Err: callersError(ctx, err)}
	}
	clock, info, _ := strings.Cut(text, "\n")
	us, err := strconv.ParseInt(clock, 10, 64)
	if err != nil {
		return r, fmt.Errorf("%w: %s answers %.40q in place of its clock; "+
			"is there a proxy that changes replies?", ErrServer, r.where(), text)
	}
	r.Offset = time.UnixMicro(us).Sub(sent.Add(r.RoundTrip / 2))
	r.read(fieldsOf(info))
	return r, r.judge(fieldsOf(info), e.spread)
}

// read fills in the fields of INFO.
func (r *Report) read(info map[string]string) {
	r.Mode = cmp.Or(info["redis_mode"], info["server_mode"]) // the latter since Valkey 8
	r.Eviction = info["maxmemory_policy"]
	r.MaxMemory, _ = strconv.ParseInt(info["maxmemory"], 10, 64)
	switch {
	case info["valkey_version"] != "":
		r.Server = "Valkey " + info["valkey_version"]
	case info["redis_version"] != "":
		r.Server = "Redis " + info["redis_version"]
	}
}

// judge returns an error if the server is unfit, and adds warnings. clustered: the client finds the
// primaries of a Cluster.
func (r *Report) judge(info map[string]string, clustered bool) error {
	switch version := info["redis_version"]; {
	case version == "":
		r.warn("%s hides its version; it must be Redis 6.2 or later, or Valkey", r.where())
	case isOld(version):
		return fmt.Errorf("%w: %s is %s; use Redis 6.2 or later, or Valkey",
			ErrServer, r.where(), r.Server)
	}
	const commands = "GET HDEL HGET HGETALL HLEN HSCAN HSET PEXPIRE PTTL SET UNLINK"
	for _, command := range strings.Fields(commands) {
		if reply := info[command]; refused(reply) {
			return fmt.Errorf("%w: %s refuses %s (%s): %s",
				ErrServer, r.where(), command, reply, advice[cause(reply)])
		}
	}
	switch {
	case clustered: // a replica or another node may have answered
	case info["role"] == "slave":
		reply := fmt.Sprintf("READONLY it follows %s:%s", info["master_host"], info["master_port"])
		return &StoreError{Address: r.Address, Err: ReplyError(reply)}
	case r.Mode == "cluster":
		r.warn("%s is a node of a Cluster, "+
			"and rejects the keys of other nodes; use a client for Clusters", r.where())
	}
	if strings.HasPrefix(r.Eviction, "allkeys-") || strings.HasPrefix(r.Eviction, "volatile-") {
		return fmt.Errorf("%w: %s forgets keys to make room (maxmemory-policy %s), "+
			"and with them what was granted: "+
			"set maxmemory-policy noeviction, or use a server of its own for limits",
			ErrServer, r.where(), r.Eviction)
	}
	if r.Offset.Abs() > bigOffset+r.RoundTrip {
		r.warn("the clock of %s is %v away from this machine's; decisions use the server's alone",
			r.where(), r.Offset.Round(time.Millisecond))
	}
	return nil
}

// isOld reports whether a version is unreadable, or before 6.2.
func isOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n < 2 || major < 6 || major == 6 && minor < 2
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// where names the server in a sentence.
func (r *Report) where() string {
	if r.Address == "" {
		return "the server"
	}
	return "Redis at " + r.Address
}

// fieldsOf reads the reply of INFO, lines of field:value.
func fieldsOf(info string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if field, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[field] = value
		}
	}
	return fields
}
