// Package secret holds texts that must never be printed.
package secret

import "log/slog"

const shown = "[secret]"

// String is a secret text. fmt, slog, JSON and YAML all show "[secret]";
// Reveal is the one way out, and easy to search for. The zero value is no
// secret at all.
type String struct{ s string }

// New returns a secret holding s.
func New(s string) String { return String{s} }

// Reveal returns the secret itself.
func (x String) Reveal() string { return x.s }

// Set reports whether there is a secret at all.
func (x String) Set() bool { return x.s != "" }

// String is for fmt.
func (String) String() string { return shown }

// GoString is for %#v.
func (String) GoString() string { return shown }

// LogValue is for slog.
func (String) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalText is for JSON and YAML.
func (String) MarshalText() ([]byte, error) { return []byte(shown), nil }

// UnmarshalText reads a secret from a config file.
func (x *String) UnmarshalText(b []byte) error { x.s = string(b); return nil }
