// Command preview draws golden cards and dialogs as a page, about as Slack shows
// them, in the width of a phone and of a desktop:
//
//	go run ./channels/slack/slacktest/preview -o /tmp/cards.html channels/slack/testdata/*.json
//	chromium --headless --screenshot=/tmp/cards.png --window-size=1140,9000 /tmp/cards.html
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
	if err := flags.Parse(args); err != nil {
		return err
	}
	page, err := draw(flags.Args())
	if err != nil {
		return err
	}
	if *file == "" {
		_, err = out.Write(page)
		return err
	}
	return os.WriteFile(*file, page, 0o600)
}

// sent is one golden file: a message, a view, or a list of blocks, which becomes
// a message without a text.
type sent struct {
	Name  string
	Value map[string]any
}

func read(file string) (sent, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return sent{}, err
	}
	s := sent{Name: strings.TrimSuffix(filepath.Base(file), ".json")}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		var blocks []any
		err = json.Unmarshal(raw, &blocks)
		s.Value = map[string]any{"blocks": blocks}
	} else {
		err = json.Unmarshal(raw, &s.Value)
	}
	if err != nil {
		return sent{}, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// draw makes the page. What it does not know is an error, not a gap.
func draw(files []string) ([]byte, error) {
	if len(files) == 0 {
		return nil, errors.New("name the golden files to draw")
	}
	var all []sent
	for _, file := range files {
		s, err := read(file)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	var page bytes.Buffer
	err := looks.Execute(&page, map[string]any{"Sent": all, "Widths": []int{360, 680}})
	return page.Bytes(), err
}

//go:embed page.html
var source string

var looks = template.Must(template.New("page").Funcs(template.FuncMap{
	"unescaped": unescaped,
	"unknown": func(what string, o map[string]any) (string, error) {
		return "", fmt.Errorf("no way to draw the %s %q", what, o["type"])
	},
}).Parse(source))

// unescaped is the text for phones as they show it: Slack wants three characters
// of it escaped.
func unescaped(text string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
}
