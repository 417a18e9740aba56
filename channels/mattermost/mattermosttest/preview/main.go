// Command preview draws posts, dialogs and answers to commands as a page, about as
// Mattermost's app for phones and its web app show them:
//
//	go test ./channels/mattermost/mattermosttest/preview -looks /tmp/looks    # an existing folder
//	go run ./channels/mattermost/mattermosttest/preview -o /tmp/cards.html /tmp/looks/*.json
//	chromium --headless --screenshot=/tmp/cards.png --window-size=1160,9000 /tmp/cards.html
//
// Both apps fold what is long; with -open it is drawn as after "Show more".
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "preview:", err)
		os.Exit(2)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("preview", flag.ContinueOnError)
	file := flags.String("o", "", "file to write, instead of to standard output")
	open := flags.Bool("open", false, "draw what is folded as well")
	only := flags.Int("width", 0, "draw this width alone: 360, a phone, or 700, a desktop")
	if err := flags.Parse(args); err != nil {
		return err
	}
	page, err := draw(flags.Args(), *open, *only)
	if err != nil {
		return err
	}
	if *file == "" {
		_, err = out.Write(page)
		return err
	}
	return os.WriteFile(*file, page, 0o600)
}

// sent is what one file has: a post, a dialog, or an answer to a command.
type sent struct {
	Name string `json:"-"`

	Message string `json:"message"`
	Props   struct {
		Attachments []attachment `json:"attachments"`
	} `json:"props"`

	Dialog *dialog `json:"dialog"`

	Response    string       `json:"response_type"` // of an answer
	Text        string       `json:"text"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	Color   string   `json:"color"`
	Pretext string   `json:"pretext"`
	Title   string   `json:"title"`
	Text    string   `json:"text"`
	Fields  []field  `json:"fields"`
	Footer  string   `json:"footer"`
	Actions []action `json:"actions"`
}

type field struct {
	Title string `json:"title"`
	Value string `json:"value"`
	Short bool   `json:"short"`
}

type action struct {
	Type    string                  `json:"type"`
	Name    string                  `json:"name"`
	Style   string                  `json:"style"`
	Options []struct{ Text string } `json:"options"`
}

type dialog struct {
	Title    string    `json:"title"`
	Intro    string    `json:"introduction_text"`
	Submit   string    `json:"submit_label"`
	Elements []element `json:"elements"`
}

type element struct {
	Name        string                  `json:"display_name"`
	Type        string                  `json:"type"`
	Help        string                  `json:"help_text"`
	Placeholder string                  `json:"placeholder"`
	Default     string                  `json:"default"`
	Optional    bool                    `json:"optional"`
	Options     []struct{ Text string } `json:"options"`
}

// Rows returns the fields as they stand beside each other: two that are short, or
// one that is not.
func (a attachment) Rows() (rows [][]field) {
	beside := false
	for _, f := range a.Fields {
		if beside && f.Short {
			rows[len(rows)-1] = append(rows[len(rows)-1], f)
			beside = false
			continue
		}
		rows, beside = append(rows, []field{f}), f.Short
	}
	return rows
}

func read(file string) (sent, error) {
	s := sent{Name: strings.TrimSuffix(filepath.Base(file), ".json")}
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	switch {
	case err != nil:
		return s, fmt.Errorf("%s: %w", file, err)
	case s.Response != "":
		s.Message, s.Props.Attachments = s.Text, s.Attachments
	case s.Dialog == nil && s.Message == "" && s.Props.Attachments == nil:
		return s, fmt.Errorf("%s: no post, dialog or answer", file)
	}
	return s, nil
}

// screen is what a thing is drawn on. Phones show less of code.
type screen struct {
	Width int
	Phone bool
	Sent  sent
}

// draw makes the page. What it does not know is an error, not a gap.
func draw(files []string, open bool, only int) ([]byte, error) {
	if len(files) == 0 {
		return nil, errors.New("name the files to draw")
	}
	var all [][]screen
	for _, file := range files {
		s, err := read(file)
		if err != nil {
			return nil, err
		}
		var screens []screen
		for _, width := range []int{360, 700} {
			if only == 0 || only == width {
				screens = append(screens, screen{Width: width, Phone: width < 500, Sent: s})
			}
		}
		all = append(all, screens)
	}
	var page bytes.Buffer
	err := looks.Execute(&page, map[string]any{"Rows": all, "Open": open})
	return page.Bytes(), err
}

//go:embed page.html
var source string

var looks = template.Must(template.New("page").Funcs(template.FuncMap{
	"markdown": markdown,
	"unknown": func(what, which string) (string, error) {
		return "", fmt.Errorf("no way to draw the %s %q", what, which)
	},
	"on": func(phone bool, of any) map[string]any { return map[string]any{"Phone": phone, "Of": of} },
}).Parse(source))
