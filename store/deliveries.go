package store

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// owed is a delivery as it is stored.
type owed struct {
	Hook  string     `json:"hook,omitempty"`
	Pos   string     `json:"pos"`
	N     int64      `json:"n"`
	ID    gate.ID    `json:"id"`
	Event gate.Event `json:"event"`
	From  gate.State `json:"from,omitempty"`
	To    gate.State `json:"to,omitempty"`
	By    string     `json:"by,omitempty"`
	At    time.Time  `json:"at"`
}

var deliveryID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Owe implements gate.Deliveries.
func (s *Redis) Owe(ctx context.Context, from, to string, all ...gate.Delivery) (string, error) {
	const op = "store.Owe"
	args := []any{from, to}
	for _, d := range all {
		if !deliveryID.MatchString(d.ID) {
			return "", invalid(op, "delivery: want an id of 1 to 64 letters, digits, _ and -")
		}
		e := d.About
		text, err := json.Marshal(owed{d.Hook, e.Pos, e.N, e.ID, e.Event, e.From, e.To, e.By, e.At})
		if err != nil {
			return "", &gate.Error{Op: op, Err: err}
		}
		of := ""
		if d.Hook == "" {
			of = string(e.ID)
		}
		args = append(args, d.ID, of, text)
	}
	r, err := s.run(ctx, op, oweScript, args...)
	return r.str(0), err
}

// TakeOwed implements gate.Deliveries. If its answer is lost, what it took is
// due again when the lease is over.
func (s *Redis) TakeOwed(ctx context.Context, n int, lease time.Duration) (all []gate.Delivery, next time.Duration, err error) {
	r, err := s.run(ctx, "store.TakeOwed", takeOwedScript, n, ms(lease))
	if err != nil {
		return nil, 0, err
	}
	for i := 1; i+2 < len(r); i += 3 {
		all = append(all, delivery(r.str(i), int(r.int(i+1)), r.str(i+2)))
	}
	if r.int(0) >= 0 {
		next = max(time.Duration(r.int(0))*time.Millisecond, time.Millisecond)
	}
	return all, next, nil
}

// delivery reads what owe.lua wrote. One that somebody has damaged is about
// nothing: it is not to be in the way of others.
func delivery(id string, tries int, text string) gate.Delivery {
	var o owed
	_ = json.Unmarshal([]byte(text), &o)
	return gate.Delivery{ID: id, Hook: o.Hook, Tries: tries, About: gate.Entry{
		Pos: o.Pos, N: o.N, ID: o.ID, Event: o.Event, From: o.From, To: o.To, By: o.By, At: o.At,
	}}
}

// Delivered implements gate.Deliveries.
func (s *Redis) Delivered(ctx context.Context, d gate.Delivery) error {
	_, err := s.tried(ctx, "store.Delivered", d, gate.Delivered, d.Tries, 0)
	return err
}

// Again implements gate.Deliveries.
func (s *Redis) Again(ctx context.Context, d gate.Delivery, in time.Duration) error {
	_, err := s.tried(ctx, "store.Again", d, gate.Waiting, d.Tries, in)
	return err
}

// PutBack implements gate.Deliveries.
func (s *Redis) PutBack(ctx context.Context, d gate.Delivery, in time.Duration) error {
	_, err := s.tried(ctx, "store.PutBack", d, gate.Waiting, d.Tries-1, in)
	return err
}

// Bury implements gate.Deliveries.
func (s *Redis) Bury(ctx context.Context, d gate.Delivery) (int, error) {
	return s.tried(ctx, "store.Bury", d, gate.Dead, d.Tries, 0)
}

func (s *Redis) tried(ctx context.Context, op string, d gate.Delivery, now gate.DeliveryState, tries int, in time.Duration) (int, error) {
	r, err := s.run(ctx, op, triedScript, d.ID, d.Tries, string(now), tries, ms(in), ms(gate.KeepDelivered))
	return int(r.int(0)), err
}

// Callbacks implements gate.Deliveries.
func (s *Redis) Callbacks(ctx context.Context, id gate.ID) (worst gate.Callbacks, err error) {
	var all []string
	err = s.plainly(ctx, "store.Callbacks", func(ctx context.Context) (err error) {
		all, err = s.db.HVals(ctx, s.space.key("cb:"+string(id))).Result()
		return err
	})
	for _, text := range all {
		state, n, _ := strings.Cut(text, " ")
		tries, _ := strconv.Atoi(n)
		if c := (gate.Callbacks{State: gate.DeliveryState(state), Tries: tries}); worse(c, worst) {
			worst = c
		}
	}
	return worst, err
}

func worse(a, b gate.Callbacks) bool {
	rank := map[gate.DeliveryState]int{gate.Delivered: 1, gate.Waiting: 2, gate.Dead: 3}
	if rank[a.State] != rank[b.State] {
		return rank[a.State] > rank[b.State]
	}
	return a.Tries > b.Tries
}
