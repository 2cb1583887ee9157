package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/integrations"
	"github.com/weirlimit/weir/policy"
)

// snippetOptions are the flags of weir snippet.
type snippetOptions struct {
	integrations.Options
	policies, whenDown, write string
}

func snippetCommand() *cobra.Command {
	var o snippetOptions
	names := strings.Join(integrations.Names(), "|")
	cmd := newCommand("snippet "+names, "Print the configuration of a proxy that calls weir",
		wantArgs(1, 1, names), o.run)
	f := cmd.Flags()
	policiesFlag(cmd, &o.policies)
	f.StringVar(&o.Policy, "policy", "search",
		"the `POLICY` that limits the requests; for envoy its domain")
	f.StringVar(&o.Dimension, "dimension", "ip",
		"the `DIMENSION` that the policy counts by; with --policies its default is that of the policy")
	f.StringVar(&o.Header, "header", "",
		"the request header `FIELD` with the key; default: the key is the client's address")
	f.StringVar(&o.PlanHeader, "plan-header", "",
		"the request header `FIELD` in which a gateway sends the value of the policy's plan-by; with --policies")
	f.StringVar(&o.Weir, "weir", "", "the `ADDRESS` of weir serve, host:port or unix:/path; "+
		"default 127.0.0.1:7070, for envoy 127.0.0.1:7071")
	f.StringVar(&o.App, "app", "127.0.0.1:8080",
		"the `ADDRESS` of the application behind the proxy")
	f.StringVar(&o.Listen, "listen", "0.0.0.0:80", "the `ADDRESS` of the proxy's listener")
	o.whenDown = "deny"
	whenDown := &wordValue[string]{
		to:   &o.whenDown,
		all:  []string{"deny", "allow"},
		next: "allow lets requests pass while weir does not answer, deny answers 503",
	}
	f.Var(whenDown, "when-down",
		"while weir is down or hangs, allow requests or deny them with 503; `WORD`")
	f.StringVar(&o.Timeout, "timeout", "100ms", "the `TIMEOUT` of requests to weir")
	f.BoolVar(&o.Secret, "secret", false, "send weir the secret of its --gate-secret-file")
	f.StringVar(&o.Dir, "dir", "",
		"the `DIRECTORY` of the files, for references between them; default: the proxy's below /etc")
	f.StringVar(&o.write, "write", "",
		"write the files to a `DIRECTORY`, if a proxy needs several; existing files are kept")
	return cmd
}

// run prints the configuration of a proxy, or writes its files to the directory of --write.
func (o *snippetOptions) run(cmd *cobra.Command, args []string) error {
	proxy := args[0]
	o.Allow = o.whenDown == "allow"
	if o.policies != "" {
		if err := o.adoptPolicy(cmd, proxy); err != nil {
			return err
		}
	} else if o.PlanHeader != "" {
		return usage("add --policies FILE, whose plan-by names the value",
			"--plan-header needs --policies")
	}
	files, err := integrations.Render(proxy, o.Options)
	if err != nil {
		return usage(cmd.CommandPath()+" -h lists the options", "%w", err)
	}
	if o.write != "" {
		return writeFiles(cmd, o.write, files)
	}
	if len(files) > 1 {
		var needed []string
		for _, f := range files {
			needed = append(needed, f.Name)
		}
		return usage("add --write DIRECTORY, such as --write .",
			"%s needs %d files, %s, and stdout holds one",
			proxy, len(files), strings.Join(needed, " and "))
	}
	_, err = io.WriteString(cmd.OutOrStdout(), files[0].Text)
	return err
}

// adoptPolicy sets the policy and the dimension from --policies. It rejects a policy whose key
// a snippet cannot send, because a snippet sends one value.
func (o *snippetOptions) adoptPolicy(cmd *cobra.Command, proxy string) error {
	file, _, err := loadPolicies(o.policies, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("policy") {
		if len(file.Policies) != 1 {
			return usage("name one of "+listed(policyNames(file)),
				"%s has several policies, and --policy is missing", file.Name)
		}
		o.Policy = file.Policies[0].Name
	}
	p, err := findPolicy(file, o.Policy)
	if err != nil {
		return err
	}
	compiled, _ := p.Compile() // the check of the file has compiled it
	by := compiled.Dimensions
	byFlag := cmd.Flags().Changed("dimension")
	isSourceMissing := o.Header == "" && !byFlag && proxy != "envoy"
	switch {
	case len(by) != 1:
		return usage("choose another policy, or write the configuration by hand after docs/http-api.md",
			"policy %q counts by %s, and a snippet sends the value of one dimension",
			p.Name, cmp.Or(strings.Join(by, " and "), "no dimension"))
	case byFlag && o.Dimension != by[0]:
		return usage("leave out --dimension",
			"policy %q counts by %q, not by %q", p.Name, by[0], o.Dimension)
	case proxy == "envoy" && o.Header == "" && by[0] != "masked_remote_address":
		return usage("name the dimension masked_remote_address in the policy, or add --header FIELD",
			"policy %q counts by %q, and Envoy sends the client's address as masked_remote_address",
			p.Name, by[0])
	case isSourceMissing && by[0] != "ip":
		return usage("add --header FIELD, or --dimension "+by[0]+" if it is the client's address",
			"policy %q counts by %q, and the source of its value is missing", p.Name, by[0])
	}
	o.Dimension, o.OfPolicy = by[0], true
	return o.adoptPlans(cmd, p)
}

// adoptPlans sets the name of the value that chooses a plan. If no header has that value, a
// warning states that every request gets the limits without a plan.
func (o *snippetOptions) adoptPlans(cmd *cobra.Command, p *policy.Definition) error {
	planBy := p.PlanBy
	switch {
	case o.PlanHeader != "" && planBy == "":
		return usage("leave out --plan-header", "policy %q has no plans", p.Name)
	case o.PlanHeader != "" && planBy == o.Dimension:
		return usage("leave out --plan-header",
			"policy %q chooses the plan by %q, whose value the snippet sends anyway",
			p.Name, planBy)
	case o.PlanHeader == "" && planBy != "" && planBy != o.Dimension:
		fmt.Fprintf(cmd.ErrOrStderr(), "weir: warning: policy %q has plans by %q, "+
			"and this snippet sends none: every request has the limits without a plan\n"+
			"  add --plan-header FIELD if a gateway in front sends it\n", p.Name, planBy)
	default:
		o.PlanBy = planBy
	}
	return nil
}

// writeFiles writes the files to a directory. If one of them exists already, it writes none.
func writeFiles(cmd *cobra.Command, dir string, files []integrations.File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = fmt.Errorf("%s exists", path)
			}
			return usage("choose another directory with --write, or move the file; nothing was written",
				"%w", err)
		}
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.WriteFile(path, []byte(f.Text), 0o644); err != nil {
			return usage("make the directory "+dir+", and check its permissions",
				"--write: %w", err)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "weir: wrote", path)
	}
	return nil
}
