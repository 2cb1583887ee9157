package server

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Banner writes what a person wants to see when the server starts: where it
// listens, what it enforces and where it counts. It is for after Listen.
func (s *Server) Banner(w io.Writer) error {
	set := s.serving.Load()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "weir listens on %s\n", s.main.url())
	if s.admin != nil {
		fmt.Fprintf(t, "  operators\t%s\n", s.admin.url())
	}
	if s.resp != nil {
		fmt.Fprintf(t, "  Redis clients\t%s\n", s.resp.addr())
	}
	if s.rpc != nil {
		fmt.Fprintf(t, "  grpc\t%s (Envoy's rate limit service)\n", s.rpc.addr())
	}
	fmt.Fprintf(t, "  store\t%s\n", s.config.StoreName)
	fmt.Fprintf(t, "  policies\t%s\n", set.source)
	for _, e := range set.entries {
		for i, l := range e.plan.Limits() {
			name := e.Name
			if i > 0 {
				name = ""
			}
			sentence := e.Sentence(i)
			if len(e.plan.Limits()) > 1 {
				sentence = l.Name + ": " + sentence
			}
			fmt.Fprintf(t, "    %s\t%s\n", name, sentence)
		}
	}
	if c := s.rules.Load(); c != nil {
		fmt.Fprintf(t, "  envoy\t%s: %d domains, %d rules, %s windows\n", c.Source, len(c.Domains), c.Rules(), s.config.EnvoyOptions.Windows)
	}
	fmt.Fprintf(t, "  decide\tPOST /v1/check, /v1/peek, /v1/record, /v1/refund; DELETE /v1/keys/{policy}\n")
	fmt.Fprintf(t, "  proxies\tANY /gate/{policy}?dimension=value; POST /json\n")
	fmt.Fprintf(t, "  look\tGET /v1/policies, /readyz, /livez, /metrics\n")
	return t.Flush()
}
