package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/approvalbot/approvalbot/gate/secret"
)

// Files of a folder; the others are the server's own.
const (
	ownerLock    = "lock"        // held by the approvalbot that owns the folder
	serverLock   = "server.lock" // held by its server
	passwordFile = "password"
	socketFile   = "redis.sock" // as in redis.conf
)

// longestSocket is how many bytes the path of a socket may have everywhere: Linux takes
// 107, others 103.
const longestSocket = 103

// folder is where a server keeps its data, and how it is reached there.
type folder struct {
	path     string // absolute
	socket   string // through a link, if path is too long for a socket
	link     string // the folder of that link; empty: none
	password secret.String
}

// takeFolder takes the folder at path for this process, until the lock is closed. It
// makes one where there is none.
func takeFolder(path string) (f folder, lock *os.File, err error) {
	if f.path, err = filepath.Abs(path); err != nil {
		return folder{}, nil, err
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return folder{}, nil, fmt.Errorf("the data folder cannot be made: %w", err)
	}
	if err := private(f.path); err != nil {
		return folder{}, nil, err
	}
	if lock, err = f.own(); err != nil {
		return folder{}, nil, err
	}
	if err = f.makePassword(); err == nil {
		f, err = openFolder(f.path)
	}
	if err != nil {
		return folder{}, nil, errors.Join(err, lock.Close())
	}
	return f, lock, nil
}

// makePassword makes a password where there is none. It stays, so that a server that
// has outlived its approvalbot is still known.
func (f *folder) makePassword() error {
	file := f.file(passwordFile)
	if b, err := os.ReadFile(file); err == nil && len(b) > 0 { //nolint:gosec // in our own folder
		return nil
	}
	if err := os.WriteFile(file+".new", []byte(rand.Text()), 0o600); err != nil {
		return fmt.Errorf("the data folder cannot be written: %w", err)
	}
	return os.Rename(file+".new", file)
}

// openFolder returns a folder that is there already. It is to be closed.
func openFolder(path string) (f folder, err error) {
	if f.path, err = filepath.Abs(path); err != nil {
		return folder{}, err
	}
	if err := private(f.path); err != nil {
		return folder{}, err
	}
	b, err := os.ReadFile(f.file(passwordFile))
	if err != nil {
		return folder{}, err
	}
	f.password = secret.New(string(b))
	f.socket = f.file(socketFile)
	if len(f.socket) > longestSocket {
		err = f.shorten()
	}
	return f, err
}

// private refuses a folder that others can look into: they could reach the server, and
// read the calls that wait. It changes nothing, because the folder may be the wrong one.
func private(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others have access to the data folder %s (mode %04o); chmod 0700 it, or choose another one, with store: {embedded: {dir: …}}", path, info.Mode().Perm())
	}
	return nil
}

// shorten reaches a folder with a long path through a link in a folder for temporary
// files. Each process has its own, which nobody else can change.
func (f *folder) shorten() (err error) {
	if f.link, err = os.MkdirTemp("", "approvalbot-"); err != nil {
		return err
	}
	link := filepath.Join(f.link, "d")
	f.socket = filepath.Join(link, socketFile)
	if err = os.Symlink(f.path, link); err == nil && len(f.socket) > longestSocket {
		err = fmt.Errorf("%s is too long for a socket, and so is %s; choose a shorter data folder", f.path, f.link)
	}
	if err != nil {
		err = errors.Join(err, f.close())
	}
	return err
}

func (f *folder) close() error {
	if f.link == "" {
		return nil
	}
	return os.RemoveAll(f.link) // the link, and not what it leads to
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// own takes the folder for this process, until the file is closed.
func (f *folder) own() (*os.File, error) {
	file, holder, err := f.lock(ownerLock)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("another approvalbot (pid %s) uses the data folder %s; stop it, or choose another folder, with store: {embedded: {dir: …}}", holder, f.path)
	}
	if err == nil {
		err = note(file, os.Getpid())
	}
	return file, err
}

// Time that a server of an earlier approvalbot has to end, and how often it is looked at.
const (
	evictFor  = 15 * time.Second
	lookEvery = 50 * time.Millisecond
)

// alone waits until no server uses the folder, and keeps it so until the file and its
// copies are closed. One that has outlived its approvalbot is asked to end: it has all
// on its disk.
func (f *folder) alone(ctx context.Context) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, evictFor)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		file, holder, err := f.lock(serverLock)
		if !errors.Is(err, errLocked) {
			return file, err
		}
		f.shutDown(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("a server of before (pid %s) uses the data folder %s and does not end; end it: kill %[1]s", holder, f.path)
		}
	}
}

// lock takes a lock that is let go when the file and all its copies are closed, by
// whatever end. If it is taken, holder is the pid that was noted in it.
func (f *folder) lock(name string) (file *os.File, holder string, err error) {
	file, err = os.OpenFile(f.file(name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("the data folder cannot be written: %w", err)
	}
	if err := flock(file); err != nil {
		pid := make([]byte, 20)
		n, _ := file.Read(pid)
		return nil, strings.TrimSpace(string(pid[:n])), errors.Join(err, file.Close())
	}
	return file, "", nil
}

// note writes into a lock who has it.
func note(file *os.File, pid int) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}

// client talks to the server of the folder. It is to be closed.
func (f *folder) client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: "unix", Addr: f.socket, Password: f.password.Reveal(), Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		MaxRetries:               -1, DialerRetries: 1, DialTimeout: time.Second, ReadTimeout: time.Second, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
}

// shutDown asks a server to end. Whether it does shows in its lock.
func (f *folder) shutDown(ctx context.Context) {
	c := f.client()
	_ = c.Shutdown(ctx).Err()
	_ = c.Close()
}

// ping reports whether the server answers. One that still reads its files does not.
func (f *folder) ping(ctx context.Context) error {
	c := f.client()
	return errors.Join(c.Ping(ctx).Err(), c.Close())
}
