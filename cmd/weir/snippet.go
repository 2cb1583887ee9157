package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/integrations"
)

func snippetCommand() *cobra.Command {
	var o integrations.Options
	var whenDown, write string
	names := strings.Join(integrations.Names(), "|")
	cmd := &cobra.Command{
		Use:   "snippet " + names,
		Short: "Print the configuration of a proxy that calls weir",
		Long: `Snippet prints a complete configuration of a proxy that calls weir serve before it
lets a request pass, and answers 429 for those that weir denies. Those of nginx,
HAProxy and Caddy are tried with the real programs, also while weir is down and
while it hangs; those of Traefik and Envoy are checked for their form.`,
		Example: `  weir snippet nginx --policy search --app 127.0.0.1:8080
  weir snippet haproxy --policy api --dimension key --header X-Api-Key --write .
  weir snippet caddy --weir unix:/run/weir/weir.sock --secret --when-down open`,
		Args:      wantArgs(1, 1, names),
		ValidArgs: integrations.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch whenDown {
			case "open", "closed":
				o.Open = whenDown == "open"
			default:
				return usage("open lets requests pass while weir does not answer, closed refuses them", "--when-down must be open or closed, not %q", whenDown)
			}
			files, err := integrations.Render(args[0], o)
			if err != nil {
				return usage(cmd.CommandPath()+" -h lists the options", "%w", err)
			}
			if write != "" {
				return writeFiles(cmd, write, files)
			}
			return printFiles(cmd, files)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Policy, "policy", "search", "the `POLICY` that limits the requests; for envoy its domain")
	f.StringVar(&o.Dimension, "dimension", "ip", "the `DIMENSION` that the policy counts by")
	f.StringVar(&o.Header, "header", "", "the request header `FIELD` whose value is counted; default: the client's address is")
	f.StringVar(&o.Weir, "weir", "", "the `ADDRESS` of weir serve, host:port or unix:/path; default 127.0.0.1:7070, for envoy 127.0.0.1:7071")
	f.StringVar(&o.App, "app", "127.0.0.1:8080", "the `ADDRESS` of the application behind the proxy")
	f.StringVar(&o.Listen, "listen", "0.0.0.0:80", "the `ADDRESS` where the proxy listens")
	f.StringVar(&whenDown, "when-down", "closed", "open lets requests pass while weir is down or hangs, closed refuses them with 503; `WORD`")
	f.StringVar(&o.Timeout, "timeout", "100ms", "the `TIME` that weir has to answer")
	f.BoolVar(&o.Secret, "secret", false, "show weir the secret of its --gate-secret-file")
	f.StringVar(&o.Dir, "dir", "", "the `DIRECTORY` where the files will lie, for those that name each other; default: the proxy's below /etc")
	f.StringVar(&write, "write", "", "write the files to a `DIRECTORY` in place of printing them; none that is there is overwritten")
	return cmd
}

// printFiles prints the files, each under its name if they are several.
func printFiles(cmd *cobra.Command, files []integrations.File) error {
	out := cmd.OutOrStdout()
	for i, f := range files {
		if len(files) > 1 {
			if i > 0 {
				fmt.Fprintln(out)
			}
			fmt.Fprintf(out, "##### file %s: --write DIRECTORY writes the files apart\n", f.Name)
		}
		if _, err := fmt.Fprint(out, f.Text); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes the files to a directory, all or none if one is there already.
func writeFiles(cmd *cobra.Command, dir string, files []integrations.File) error {
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = fmt.Errorf("%s is there already", path)
			}
			return usage("choose another directory with --write, or move the file away; nothing was written", "%w", err)
		}
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.WriteFile(path, []byte(f.Text), 0o644); err != nil {
			return usage("", "%w", err)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "weir: wrote", path)
	}
	return nil
}
