package mattermosttest

// Read returns what a person reads.
func (p Post) Read() string { return p.Message }
