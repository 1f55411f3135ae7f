package store

// LinkError is the error of a backup that could not be linked to its name.
func LinkError(err error) error { return linkError(err) }
