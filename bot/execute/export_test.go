package execute

import "time"

// SaysError is for fuzzing.
var SaysError = saysError

// Impatient lets a Webhook send again at once.
func Impatient(w *Webhook) { w.pause = time.Millisecond }

// Closed reports whether the connection of a prepared webhook is known to be closed.
func Closed(d Dispatch) bool { return d.(*sending).conn.Closed() }

// Fill reads a template and fills it in.
func Fill(template []string, j *Job) ([]string, error) {
	argv, err := parseArgv(template)
	if err != nil {
		return nil, err
	}
	return fill(argv, j)
}
