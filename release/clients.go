package main

import (
	"path/filepath"
)

// writeClients packs the clients with the tools of their languages. npm and packing.py write the
// same bytes for the same files.
func writeClients(s *source, dir string) error {
	npm := []string{"pack", "--silent", "--ignore-scripts", "--pack-destination", dir}
	if _, err := output(filepath.Join(s.dir, "clients/node"), nil, "npm", npm...); err != nil {
		return err
	}
	const script = "import packing, sys; packing.build_wheel(sys.argv[1]); packing.build_sdist(sys.argv[1])"
	packing := filepath.Join(s.dir, "clients/python/packing")
	_, err := output(packing, []string{"PYTHONDONTWRITEBYTECODE=1"}, "python3", "-c", script, dir)
	return err
}
