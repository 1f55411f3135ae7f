// Package heavyhitters finds the tokens with the most recent requests, in memory that does not grow with the number of tokens.
//
// It is the space-saving sketch of Metwally, Agrawal and El Abbadi (2005): a fixed number of counters. A token without a counter takes over
// the counter with the smallest count; that count becomes the maximum error of its own. No count is ever too low, each count comes with its
// maximum error, and a token with a large part of all requests is always listed.
//
// Counts decay: each count is halved every minute. So the count of a token with a steady rate is the number of its requests in one to two
// minutes. A token with a count of n and without further requests is listed for about log2(n) minutes.
package heavyhitters
