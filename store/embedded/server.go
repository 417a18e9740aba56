package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Server is a server in a data folder. It is safe for concurrent use.
type Server struct {
	program Program
	folder  folder
	log     *slog.Logger

	owner *os.File      // the lock on the folder; nil: the server is of another process
	stop  func()        // ends the server
	ready chan struct{} // closed when it has answered for the first time
	ended chan struct{} // closed when it has ended for good; then err says why
	err   error
}

// Start runs a server on a data folder until it is closed, and returns when it answers.
// Should it end before, it is started again. The folder is made where there is none;
// ctx is for the start alone.
func Start(ctx context.Context, dir string, log *slog.Logger) (*Server, error) {
	program, err := Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	f, owner, err := takeFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{program: program, folder: f, log: log, owner: owner, stop: stop, ready: make(chan struct{}), ended: make(chan struct{})}
	go s.keep(living)
	select {
	case <-s.ready:
		return s, nil
	case <-s.ended:
		err = s.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, fmt.Errorf("embedded store in %s: %w", f.path, errors.Join(err, s.Close()))
}

// ErrNotRunning is that no server answers in a data folder.
var ErrNotRunning = errors.New("the embedded store is not running; `approvalbot serve` runs it")

// Attach returns the server that another process runs on a data folder.
func Attach(ctx context.Context, dir string) (*Server, error) {
	f, err := openFolder(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	if err := f.ping(ctx); err != nil {
		return nil, errors.Join(ErrNotRunning, f.close())
	}
	return &Server{folder: f}, nil
}

// Socket is the address of the server: it stays when the server is started again.
func (s *Server) Socket() string { return s.folder.socket }

// PasswordFile holds the server's password.
func (s *Server) PasswordFile() string { return s.folder.file(passwordFile) }

// Dir is the data folder.
func (s *Server) Dir() string { return s.folder.path }

// Close ends the server and waits for that; one of another process goes on.
func (s *Server) Close() error {
	if s.owner == nil {
		return s.folder.close()
	}
	s.stop()
	<-s.ended
	return errors.Join(s.folder.close(), s.owner.Close())
}

// Pauses before a server that ended is started again: each is twice the one before,
// until one has lived for a while.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
	livedLong  = time.Minute
)
