package gateway

import "iter"

// The functions below validate JSON (RFC 8259) in one pass and find its values: decoding a body by reflection would cost as much as the
// call of the service. Each takes an offset, and returns the offset after the part that it parsed, or that of the error.

// byteAt returns a byte of data, or 0 past its end. JSON has no such byte outside of strings.
func byteAt(data []byte, at int) byte {
	if at < len(data) {
		return data[at]
	}
	return 0
}

func skipSpace(data []byte, at int) int {
	for at < len(data) && data[at] <= ' ' && (data[at] == ' ' || data[at] == '\n' || data[at] == '\t' || data[at] == '\r') {
		at++
	}
	return at
}

// skipValue parses one value. It subtracts the number of values in it from remaining, and fails if that becomes negative.
func skipValue(data []byte, at int, remaining *int) (int, error) {
	levels := uint64(1) // leading 1, then one bit for each open level: 1 object, 0 array; innermost level lowest
	for {
		if *remaining--; *remaining < 0 {
			return at, errTooMany
		}
		ok := true
		switch c := byteAt(data, at); c {
		case '"':
			at, ok = skipString(data, at)
		case '{', '[':
			if levels>>maxNesting == 1 {
				return at, errTooDeep
			}
			at = skipSpace(data, at+1)
			if byteAt(data, at) == c+2 { // '}' or ']'
				at++
				break
			}
			levels <<= 1
			if c == '{' {
				levels |= 1
				if at, ok = skipName(data, at); !ok {
					return at, errNotJSON
				}
			}
			continue
		case 't':
			at, ok = skipLiteral(data, at, "true")
		case 'f':
			at, ok = skipLiteral(data, at, "false")
		case 'n':
			at, ok = skipLiteral(data, at, "null")
		default:
			at, ok = skipNumber(data, at)
		}
		if levels&1 == 0 && ok && byteAt(data, at) == ',' { // in an array, the most frequent case
			at = skipSpace(data, at+1)
			continue
		}
		if ok && levels > 1 {
			at, levels, ok = skipToNext(data, at, levels)
		}
		switch {
		case !ok:
			return at, errNotJSON
		case levels == 1:
			return at, nil
		}
	}
}

// skipToNext parses the delimiters between a value and the next one, and returns the levels that are still open: 1 if the outermost value
// is complete.
func skipToNext(data []byte, at int, levels uint64) (int, uint64, bool) {
	for levels > 1 {
		at = skipSpace(data, at)
		inObject := levels&1 == 1
		switch c := byteAt(data, at); {
		case c == ',' && inObject:
			at, ok := skipName(data, skipSpace(data, at+1))
			return at, levels, ok
		case c == ',':
			return skipSpace(data, at+1), levels, true
		case c == '}' && inObject, c == ']' && !inObject:
			at++
			levels >>= 1
		default:
			return at, levels, false
		}
	}
	return at, levels, true
}

// skipName parses a name and its colon, up to the value.
func skipName(data []byte, at int) (int, bool) {
	at, ok := skipString(data, at)
	if !ok {
		return at, false
	}
	if at = skipSpace(data, at); byteAt(data, at) != ':' {
		return at, false
	}
	return skipSpace(data, at+1), true
}

func skipLiteral(data []byte, at int, literal string) (int, bool) {
	for i := range len(literal) {
		if byteAt(data, at) != literal[i] {
			return at, false
		}
		at++
	}
	return at, true
}

func skipNumber(data []byte, at int) (int, bool) {
	if byteAt(data, at) == '-' {
		at++
	}
	var ok bool
	if byteAt(data, at) == '0' {
		at++
	} else if at, ok = skipDigits(data, at); !ok {
		return at, false
	}
	if byteAt(data, at) == '.' {
		if at, ok = skipDigits(data, at+1); !ok {
			return at, false
		}
	}
	if byteAt(data, at)|0x20 == 'e' {
		at++
		if c := byteAt(data, at); c == '+' || c == '-' {
			at++
		}
		return skipDigits(data, at)
	}
	return at, true
}

// skipDigits parses one or more digits.
func skipDigits(data []byte, at int) (int, bool) {
	start := at
	for at < len(data) && data[at]-'0' <= 9 {
		at++
	}
	return at, at > start
}

// skipString parses a string literal.
func skipString(data []byte, at int) (int, bool) {
	if byteAt(data, at) != '"' {
		return at, false
	}
	for at++; at < len(data); at++ {
		switch c := data[at]; {
		case c == '"':
			return at + 1, true
		case c < ' ':
			return at, false
		case c == '\\':
			at++
			switch byteAt(data, at) {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if at++; !isHexDigit(byteAt(data, at)) {
						return at, false
					}
				}
			default:
				return at, false
			}
		}
	}
	return at, false
}

func isHexDigit(c byte) bool { return c-'0' <= 9 || (c|0x20)-'a' <= 'f'-'a' }

// elements yields the values of an array, which must be valid JSON within the limits.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		remaining := maxValues
		for at := skipSpace(array, 1); array[at] != ']'; at = skipSpace(array, at) {
			if array[at] == ',' {
				at++
				continue
			}
			end, _ := skipValue(array, at, &remaining)
			if !yield(array[at:end]) {
				return
			}
			at = end
		}
	}
}
