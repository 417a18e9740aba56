package mattermosttest

import (
	"encoding/json"
	"net/http"
	"slices"
)

// Dialog is a form that an integration opened for a user.
type Dialog struct {
	User, URL, Callback, Title, Intro, Submit, State string

	Trigger        string // what the user's client calls the press that led to it
	Elements       []Element
	NotifyOnCancel bool
	ID             string            // of this double
	Error          string            // what the last submission got
	Errors         map[string]string // the same, by element
}

// Element is a field of a dialog.
type Element struct {
	Name, Label, Type, Subtype, Help, Placeholder, Default string

	Optional bool
	Min, Max int
	Options  []string // their values
	Texts    []string // what they read
}

// opening is what an integration sends to open a dialog.
type opening struct {
	Trigger string     `json:"trigger_id"`
	URL     string     `json:"url"`
	Dialog  dialogForm `json:"dialog"`
}

type dialogForm struct {
	Callback  string        `json:"callback_id"`
	Title     string        `json:"title"`
	Intro     string        `json:"introduction_text"`
	Icon      string        `json:"icon_url"`
	Elements  []formElement `json:"elements"`
	Submit    string        `json:"submit_label"`
	Notify    bool          `json:"notify_on_cancel"`
	State     string        `json:"state"`
	SourceURL string        `json:"source_url,omitempty"`
}

type formElement struct {
	Label       string    `json:"display_name"`
	Name        string    `json:"name"`
	Type        string    `json:"type"`
	Subtype     string    `json:"subtype"`
	Default     string    `json:"default"`
	Placeholder string    `json:"placeholder"`
	Help        string    `json:"help_text"`
	Optional    bool      `json:"optional"`
	Min         int       `json:"min_length"`
	Max         int       `json:"max_length"`
	DataSource  string    `json:"data_source"`
	Options     []*option `json:"options"`
	Multi       bool      `json:"multiselect"`
}

// openDialog needs no login: the trigger id says for whom it is. Whether the form
// is a good one is not looked at.
func (s *Server) openDialog(c *call) (answer, error) {
	var in opening
	if err := c.read("dialog", &in); err != nil {
		return answer{}, err
	}
	if in.URL == "" {
		return answer{}, invalidBody("url")
	}
	short, user, err := s.readTrigger(in.Trigger)
	if err != nil {
		return answer{}, err
	}
	s.dialogs = append(s.dialogs, in.Dialog.opened(user, short, in.URL))
	return done, nil
}

func (f dialogForm) opened(user, trigger, url string) *Dialog {
	d := &Dialog{
		ID: NewID(), User: user, Trigger: trigger, URL: url, Callback: f.Callback, Title: f.Title, Intro: f.Intro,
		Submit: f.Submit, State: f.State, NotifyOnCancel: f.Notify,
	}
	for _, e := range f.Elements {
		el := Element{
			Name: e.Name, Label: e.Label, Type: e.Type, Subtype: e.Subtype, Help: e.Help, Placeholder: e.Placeholder,
			Default: e.Default, Optional: e.Optional, Min: e.Min, Max: e.Max,
		}
		for _, o := range e.Options {
			el.Options, el.Texts = append(el.Options, o.Value), append(el.Texts, o.Text)
		}
		d.Elements = append(d.Elements, el)
	}
	return d
}

// Dialogs returns what is open before a user, the oldest first.
func (s *Server) Dialogs(user string) []Dialog {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []Dialog
	for _, d := range s.dialogs {
		if d.User == user {
			open = append(open, *d)
		}
	}
	return open
}

// submission is what a client sends, and what goes on to the integration but for
// the URL. Only user_id is the server's.
type submission struct {
	Type       string `json:"type"`
	URL        string `json:"url,omitempty"`
	Callback   string `json:"callback_id"`
	State      string `json:"state"`
	User       string `json:"user_id"`
	Channel    string `json:"channel_id"`
	Team       string `json:"team_id"`
	Submission object `json:"submission"`
	Cancelled  bool   `json:"cancelled"`
}

func (s *Server) submitDialog(c *call) (answer, error) {
	return s.forward(c, func(in *submission) {
		if in.Type == "" {
			in.Type = "dialog_submission"
		}
	}, s.submitted)
}

// lookUp asks for the options of a menu.
func (s *Server) lookUp(c *call) (answer, error) {
	return s.forward(c, func(in *submission) { in.Type = "dialog_lookup" }, func(r reply) (answer, error) {
		var found struct {
			Items []*option `json:"items"`
		}
		if len(r.body) > 0 && json.Unmarshal(r.body, &found) != nil {
			return answer{}, badIntegration()
		}
		return ok(found), nil
	})
}

// forward sends what a client made to the URL that the client says.
func (s *Server) forward(c *call, complete func(*submission), then func(reply) (answer, error)) (answer, error) {
	var in submission
	if err := c.read("dialog", &in); err != nil {
		return answer{}, err
	}
	if in.URL == "" {
		return answer{}, invalidBody("url")
	}
	ch := s.channels[in.Channel]
	if ch != nil && ch.Team != "" && s.since11(10) {
		in.Team = ch.Team // later servers do not believe the client
	}
	switch {
	case ch == nil:
		return answer{}, noChannel(in.Channel)
	case !s.knows(c.user, ch), !s.inTeam(c.user, in.Team):
		return answer{}, forbidden()
	}
	to := in.URL
	in.URL, in.User = "", c.user.ID
	complete(&in)
	raw, err := marshal(in)
	if err != nil {
		return answer{}, err
	}
	r, err := s.call(c, to, raw, "")
	if err != nil {
		return answer{}, err
	}
	return then(r)
}

// verdict is the answer of an integration to a submission.
type verdict struct {
	Error  string            `json:"error,omitempty"`
	Errors map[string]string `json:"errors,omitempty"`
	Type   string            `json:"type,omitempty"`
	Form   *dialogForm       `json:"form,omitempty"`
}

func (s *Server) submitted(r reply) (answer, error) {
	var v verdict
	if len(r.body) == 0 {
		return ok(v), nil
	}
	if err := json.Unmarshal(r.body, &v); err != nil {
		return answer{}, refuse(http.StatusInternalServerError, "app.submit_interactive_dialog.decode_json_error",
			"Encountered an error decoding JSON response from interactive dialog submission.").because("%v", err)
	}
	if !s.since11(1) { // which brought steps
		return ok(verdict{Error: v.Error, Errors: v.Errors}), nil
	}
	if !slices.Contains([]string{"", "ok", "form", "navigate"}, v.Type) || v.Type == "form" && v.Form == nil {
		return answer{}, refuse(http.StatusBadRequest, "app.submit_interactive_dialog.invalid_response",
			"Encountered an invalid response from interactive dialog submission.")
	}
	return ok(v), nil
}
