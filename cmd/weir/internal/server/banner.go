package server

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weirlimit/weir/internal/definition"
	"github.com/weirlimit/weir/policy"
)

// Facts returns the content of Banner for a log line, as alternating names and values.
func (s *Server) Facts() []any {
	set := s.set()
	facts := []any{
		"version", s.config.Version,
		"listen", s.main.url(),
		"store", s.config.StoreName,
		"source", set.File.Name,
		"policies", len(set.Rules),
		"limits", set.Limits,
	}
	for _, p := range s.ports[1:] { // the first port is main
		facts = append(facts, listenerNames[p.flag], p.url())
	}
	return facts
}

// Banner writes a summary: the addresses, the policies and the store. It is called after
// Listen. It is a single write, so that the lines of two servers on a terminal do not mix.
func (s *Server) Banner(w io.Writer) error {
	set := s.set()
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "weir listens on %s\n", s.main.url())
	if at := s.pageURL(); at != "" {
		fmt.Fprintf(t, "  page\t%s (who is denied, and why)\n", at)
	}
	if s.admin != nil {
		fmt.Fprintf(t, "  operators\t%s\n", s.admin.url())
	}
	if s.resp != nil {
		fmt.Fprintf(t, "  Redis clients\t%s\n", s.RESPAddr())
	}
	if s.rpc != nil {
		fmt.Fprintf(t, "  grpc\t%s (Envoy's rate limit service)\n", s.GRPCAddr())
	}
	fmt.Fprintf(t, "  store\t%s\n", s.config.StoreName)
	if s.config.StoreNote != "" {
		fmt.Fprintf(t, "    \t(%s)\n", s.config.StoreNote)
	}
	fmt.Fprintf(t, "  policies\t%s\n", set.File.Name)
	for _, e := range set.Rules {
		for i, l := range e.Compiled.Limits {
			name := e.Name
			if i > 0 {
				name = ""
			}
			sentence := e.Sentence(i)
			if len(e.Compiled.Limits) > 1 {
				sentence = l.Name + ": " + sentence
			}
			fmt.Fprintf(t, "    %s\t%s\n", name, sentence)
		}
		if also := otherParts(e.Definition); also != "" {
			fmt.Fprintf(t, "    \t(%s)\n", also)
		}
	}
	if c := s.rules.Load(); c != nil {
		fmt.Fprintf(t, "  envoy\t%s: %d domains, %d rules, %s windows\n", c.Source, len(c.Domains),
			c.Rules(), s.config.EnvoyOptions.Windows)
	}
	fmt.Fprintf(t, "  decide\tPOST /v1/check, /v1/checks, /v1/peek, /v1/count, /v1/record, "+
		"/v1/refund, /v1/reserve, /v1/settle, /v1/release, /v1/extend\n")
	fmt.Fprintf(t, "  proxies\tANY /gate/{policy}?dimension=value\n")
	fmt.Fprintf(t, "  change\tPOST /v1/block, /v1/reload; DELETE /v1/keys/{policy}; "+
		"PUT, DELETE /v1/overrides/{policy}\n")
	fmt.Fprintf(t, "  look\tGET /v1/policies, /v1/keys/{policy}, /v1/overrides, /v1/stats, /v1/top, "+
		"/v1/instances, /readyz, /livez, /metrics, /openapi.json\n")
	t.Flush() // a write to a buffer never fails
	_, err := w.Write(text.Bytes())
	return err
}

// pageURL returns the address of the operators' page, or "" if it is on a unix socket, which no
// browser can open.
func (s *Server) pageURL() string {
	of := cmp.Or(s.admin, s.main)
	if of.address.IsUnix() {
		return ""
	}
	return of.url() + "/"
}

// otherParts returns the parts of a policy besides its limits in words, or "".
func otherParts(p *policy.Definition) string {
	var all []string
	if p.Shadow {
		all = append(all, "shadow: not enforced")
	}
	if p.Reported {
		all = append(all, "counts what is reported")
	}
	for i, l := range p.Limits {
		if l.Cost > 0 {
			all = append(all, fmt.Sprintf("an attempt takes %d of %s", l.Cost, l.Name))
		}
		if share := definition.WarnAt(p, i); share > 0 {
			all = append(all, fmt.Sprintf("%s warns at %d%%", l.Name, share))
		}
	}
	if n := len(p.Plans); n > 0 {
		all = append(all, quantity(n, "plan"))
	}
	if n := len(p.Overrides); n > 0 {
		all = append(all, quantity(n, "override"))
	}
	return strings.Join(all, ", ")
}

// quantity returns "1 plan" or "2 plans".
func quantity(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
