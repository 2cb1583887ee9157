// Package systemd takes over sockets of a service manager, which stay open while the service
// restarts, and reports the service's state. Without a manager it does nothing.
package systemd

import (
	"fmt"
	"log/slog"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Sockets returns the listeners that the manager has opened for this process. They are returned
// once: a program that this process starts does not get them.
func Sockets() ([]net.Listener, error) {
	var all []net.Listener
	const unsetVariables = true
	for _, file := range activation.Files(unsetVariables) {
		l, err := net.FileListener(file)
		file.Close() // l has a copy
		if err != nil {
			return nil, fmt.Errorf("weir: %s of the service manager is no socket that listens "+
				"on TCP or a path (%w); its unit needs ListenStream= and Accept=no", file.Name(), err)
		}
		all = append(all, l)
	}
	return all, nil
}

// State is a state of the service.
type State string

// The states of a service.
const (
	Ready     State = daemon.SdNotifyReady
	Reloading State = daemon.SdNotifyReloading
	Stopping  State = daemon.SdNotifyStopping
)

// Notify reports a state to the manager, which acts on it with Type=notify in the unit.
func Notify(s State, log *slog.Logger) {
	message := string(s)
	if s == Reloading {
		message += "\n" + daemon.SdNotifyMonotonicUsec() // for Type=notify-reload
	}
	if _, err := daemon.SdNotify(false, message); err != nil {
		log.Warn("the service manager does not hear of the state", "state", string(s), "error", err)
	}
}
