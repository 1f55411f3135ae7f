package config

// suggestion returns "; did you mean NAME?" with the most similar key, or "".
func suggestion(written string, known []field) string {
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
	}
	return suggestionOf(written, names)
}

func suggestionOf(written string, known []string) string {
	best, name := 3, "" // at most two letters may differ
	for _, other := range known {
		if d := distance(written, other); d < best && d < len(other) {
			best, name = d, other
		}
	}
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// distance returns the Levenshtein distance of a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
