package weirdisk

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// identityName is the file with the random name of the directory.
const identityName = "IDENTITY"

// readIdentity returns the name of the directory, and gives it one if it has none. A power
// failure may leave the file empty: nothing has used the name then.
func readIdentity(f files, dir string) (string, error) {
	path := filepath.Join(dir, identityName)
	b, err := f.read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if name := strings.Trim(string(b), "\x00\n"); len(name) == len(rand.Text()) {
		return name, nil
	}
	name := rand.Text()
	file, err := f.create(path)
	if err != nil {
		return "", err
	}
	_, err = file.Write([]byte(name + "\n"))
	if err == nil {
		err = file.sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	return name, f.syncDir(dir)
}
