// Package secret holds texts that must never be printed.
package secret

import "log/slog"

const shown = "[secret]"

// String is a secret text. fmt, slog, JSON and YAML all show "[secret]";
// Reveal is the one way out, and easy to search for. The zero value is no
// secret at all.
//
// It lies behind a pointer, because fmt asks nobody about what is in an unexported
// field: it would print a text there, and of a pointer it prints the address.
type String struct{ s *string }

// New returns a secret holding s.
func New(s string) String { return String{&s} }

// Reveal returns the secret itself.
func (x String) Reveal() string {
	if x.s == nil {
		return ""
	}
	return *x.s
}

// Set reports whether there is a secret at all.
func (x String) Set() bool { return x.Reveal() != "" }

// String is for fmt.
func (String) String() string { return shown }

// GoString is for %#v.
func (String) GoString() string { return shown }

// LogValue is for slog.
func (String) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalText is for JSON and YAML.
func (String) MarshalText() ([]byte, error) { return []byte(shown), nil }

// UnmarshalText reads a secret from a config file.
func (x *String) UnmarshalText(b []byte) error { *x = New(string(b)); return nil }
