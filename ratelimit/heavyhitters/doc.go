// Package heavyhitters finds the tokens with the most recent requests, in memory that does not grow
// with the number of tokens.
//
// It is the space-saving sketch of Metwally, Agrawal and El Abbadi (2005): a fixed number of
// counters. A token without a counter takes over the counter with the smallest count; that count
// becomes the maximum error of its own. No count is ever too low, each count comes with its maximum
// error, and a token with a large part of all requests is always listed. Each token belongs to one
// of 64 shards with 64 counters each, which share nothing: a token with more than a 64th of the
// requests of its shard always has a counter.
//
// Each count is halved every minute, so the count of a token with a steady rate is the number of
// its requests in one to two minutes.
package heavyhitters
