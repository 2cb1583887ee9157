package peers

// Absence is a library that is left out, with the reason.
type Absence struct{ Module, Why string }

// Absent lists the libraries that are left out.
func Absent() []Absence {
	return []Absence{
		{"github.com/clipperhouse/rate", "the Go module proxy this was written against does not serve it (latest, v0.2.0)"},
		{"github.com/webriots/rate", "the Go module proxy does not serve it; it keeps no keys, so unrelated keys share quota"},
		{"github.com/zalando/skipper", "the Go module proxy does not serve its latest version; its limiter comes with a whole proxy"},
		{"github.com/mholt/caddy-ratelimit", "served (v0.1.0), but its exact ring is unexported and its package is a plugin that imports all of Caddy"},
		{"github.com/mennanov/limiters", "served (v1.11.0), but its one package imports the clients of eight stores (AWS, Azure, Consul, etcd, …), 160 modules; its sliding window is stated here as “two counters”"},
	}
}
