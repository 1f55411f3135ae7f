// Package console is the page for people on the admin listener: what is wrong now, said in words, and beside it how the gateway
// stands, what traffic it had in the last quarter of an hour, and why a request is refused.
//
// The page is one document without a request for anything but events, which come as server-sent events while it is open. What it
// shows of the past is sampled from the process' own metrics every few seconds, into memory that is bounded; nothing is noted
// on the way of a request. All else is asked for while somebody looks, once for all who do.
//
// The document holds nothing of the gateway and may be read by anybody who can connect. The events are for those who may ask,
// which is left to whoever serves them, as is the answer to the form that explains a request.
package console
