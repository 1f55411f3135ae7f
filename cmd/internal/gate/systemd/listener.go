package systemd

import (
	"fmt"
	"net"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
)

// name is FileDescriptorName= of the socket unit.
const name = "public"

// PublicListener returns the public listener, or nil if systemd has passed no socket to this
// process. It returns an error if systemd has passed anything but one TCP socket named public:
// connections to another socket would never be accepted. Closing the listener does not close the
// socket, which systemd holds open. PublicListener may be called once: it removes the variables of
// systemd from the environment.
func PublicListener() (*net.TCPListener, error) {
	files := activation.Files(true)
	if len(files) == 0 {
		return nil, nil //nolint:nilnil // documented: there is no socket
	}
	defer closeFiles(files) // the listener has its own descriptor
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = file.Name()
	}
	if len(files) != 1 || names[0] != name {
		return nil, fmt.Errorf("systemd passed sockets named %q: opsgate serves only one, with FileDescriptorName=%s", names,
			name)
	}
	passed, err := net.FileListener(files[0])
	if err != nil {
		return nil, fmt.Errorf("use the socket that systemd passed: %w", err)
	}
	tcp, ok := passed.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("the socket that systemd passed, %s, is not a TCP socket", passed.Addr())
	}
	return tcp, nil
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}
