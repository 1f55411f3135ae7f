package heavyhitters

// NewWithCapacity is newSketch for tests.
var NewWithCapacity = newSketch
