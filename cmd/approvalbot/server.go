package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits of the HTTP server. There is no write time-out: answers to long polls
// and event streams are late on purpose, and their handlers set deadlines.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	drainTime         = 10 * time.Second
)

// part is something that runs until its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// server answers HTTP on a listener, and runs what must run beside it.
type server struct {
	log      *slog.Logger
	listener net.Listener
	handler  http.Handler
	drain    func() // not ready any more; parked callers are answered
	drained  func() // waits for what requests have left to be done; may be nil
	parts    []part
}

// run serves until ctx ends, drains, and only then stops the parts that the last
// answers need. A part that ends before that takes the whole process down.
func (s *server) run(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, running := errgroup.WithContext(running)
	for _, p := range s.parts {
		group.Go(func() error {
			if err := p.run(running); running.Err() == nil {
				return fmt.Errorf("%s stopped: %w", p.name, orNoReason(err))
			}
			return nil
		})
	}
	group.Go(func() error {
		defer stop()
		serving, done := context.WithCancel(ctx)
		defer done()
		defer context.AfterFunc(running, done)()
		return s.serve(serving)
	})
	return group.Wait()
}

var errNoReason = errors.New("it returned without being asked to")

func orNoReason(err error) error {
	if err == nil {
		return errNoReason
	}
	return err
}

func (s *server) serve(ctx context.Context) error {
	web := newHTTPServer(s.handler, s.log)
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(s.listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.log.InfoContext(ctx, "draining")
	s.drain()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := web.Shutdown(last)
	if err != nil {
		s.log.WarnContext(ctx, "some requests did not end in time", "err", err)
		err = web.Close()
	}
	if s.drained != nil {
		s.drained()
	}
	return err
}

func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // many parked callers on one connection
	return &http.Server{
		Handler: h, Protocols: protocols,
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
