package mattermosttest

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Submission is what a person does with a dialog. All but who they are is made by
// their client, so Mangle can make anything of it.
type Submission struct {
	User    string
	Dialog  Dialog
	Values  map[string]any
	Cancel  bool
	Channel string // where they are; empty means any channel of theirs
	Team    string // empty means [Team]
	Mangle  func(map[string]any)
}

// Answered is what a submission got.
type Answered struct {
	Status       int
	Error        string            // the id of an app error, or what the dialog says at its foot
	Errors       map[string]string // what it says at its fields
	Closed       bool
	Body         []byte // what was sent to the integration
	Answer       []byte // of the integration
	AnswerStatus int
}

// Submit sends what the web app sends to the endpoint of submissions. A dialog
// that asks not to be told of a cancellation is just closed.
func (s *Server) Submit(ctx context.Context, in Submission) (Answered, error) {
	d := in.Dialog
	if in.Cancel && !d.NotifyOnCancel && in.Mangle == nil {
		s.shut(d)
		return Answered{Closed: true}, nil
	}
	body := object{
		"url": d.URL, "callback_id": d.Callback, "state": d.State, "user_id": "", "channel_id": s.where(in),
		"team_id": Team, "submission": in.values(), "cancelled": in.Cancel,
	}
	if in.Team != "" {
		body["team_id"] = in.Team
	}
	if in.Mangle != nil {
		in.Mangle(body)
	}
	var o Outcome
	raw, err := s.as(watching(ctx, &o), in.User, http.MethodPost, "/actions/dialogs/submit", body, &o)
	if err != nil {
		return Answered{}, err
	}
	a := Answered{Status: o.Status, Error: o.Error, Body: o.Body, Answer: o.Answer, AnswerStatus: o.AnswerStatus}
	var v verdict
	if o.Status == http.StatusOK && json.Unmarshal(raw, &v) == nil {
		a.Error, a.Errors = v.Error, v.Errors
		a.Closed = in.Cancel || v.Error == "" && len(v.Errors) == 0 && v.Type != "form"
	}
	s.after(d, v, a)
	return a, nil
}

// values are what is filled in, with the defaults of what is not. A cancellation
// has none.
func (in Submission) values() object {
	if in.Cancel {
		return object{}
	}
	all := object{}
	for _, e := range in.Dialog.Elements {
		switch {
		case e.Type == "bool":
			all[e.Name] = e.Default == "true"
		case e.Default != "":
			all[e.Name] = e.Default
		}
	}
	maps.Copy(all, in.Values)
	return all
}

// where finds a channel for the submission if none is given.
func (s *Server) where(in Submission) string {
	if in.Channel != "" {
		return in.Channel
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range sortedKeys(s.channels) {
		if s.channels[id].has(in.User) && s.channels[id].deletedAt == 0 {
			return id
		}
	}
	return ""
}

func (s *Server) shut(d Dialog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialogs = slices.DeleteFunc(s.dialogs, func(o *Dialog) bool { return o.ID == d.ID })
}

// after does with a dialog what the client does.
func (s *Server) after(d Dialog, v verdict, a Answered) {
	if a.Closed {
		s.shut(d)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.dialogs {
		if o.ID != d.ID {
			continue
		}
		o.Error, o.Errors = a.Error, a.Errors
		if v.Form != nil {
			next := v.Form.opened(o.User, o.Trigger, o.URL)
			next.ID = o.ID
			*o = *next
		}
	}
}

// Read returns what the user reads, one thing after the other:
//
//	# Deny request
//	Why do you deny it?
//	Reason *: ____ (shown to the requester)
//	For: [this time|always]
//	[Deny] [Cancel]
func (d Dialog) Read() string {
	lines := []string{"# " + d.Title}
	if d.Intro != "" {
		lines = append(lines, d.Intro)
	}
	for _, e := range d.Elements {
		lines = append(lines, e.read())
		if m := d.Errors[e.Name]; m != "" {
			lines = append(lines, "! "+m)
		}
	}
	if d.Error != "" {
		lines = append(lines, "! "+d.Error)
	}
	submit := d.Submit
	if submit == "" {
		submit = "Submit"
	}
	return strings.Join(append(lines, "["+submit+"] [Cancel]"), "\n")
}

func (e Element) read() string {
	line := e.Label
	if !e.Optional {
		line += " *"
	}
	switch {
	case len(e.Texts) > 0:
		line += ": [" + strings.Join(e.Texts, "|") + "]"
	case e.Type == "bool":
		line += ": [ ]"
	case e.Default != "":
		line += ": " + e.Default
	default:
		line += ": ____"
	}
	if hint := words(e.Placeholder, e.Help); hint != "" {
		line += " (" + hint + ")"
	}
	return line
}
