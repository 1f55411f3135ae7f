// Package heavyhitters finds the tokens that ask most of late, in memory that does not grow with the number of tokens.
//
// It is the space-saving sketch of Metwally, Agrawal and El Abbadi (2005): a fixed number of counters, and a token that has none takes over
// the smallest, with what that had counted as the most by which the new count may be too high. Nobody who asks much goes
// unnoticed, no count is ever too low, and each says by how much it may be too high.
//
// "Of late" is a weight: a request counts in full at first, and half as much after each [HalfLife]. A token that asks steadily
// is thus counted with what it asks in one to two half-lives, and one that falls silent is listed for as many more of them as its
// count has binary digits.
package heavyhitters
