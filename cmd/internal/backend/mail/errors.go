package mail

import (
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"opsgate/cmd/internal/backend/delivery"
)

// Steps of a transaction. 5xx replies to the last two are about the recipient or the message.
const (
	stepSender    = "MAIL FROM"
	stepRecipient = "RCPT TO"
	stepData      = "DATA"
)

// A stepError is a step of a session that failed: at the network, or by a reply, which is a *textproto.Error.
type stepError struct {
	step string
	err  error
}

func (e stepError) Error() string {
	if reply, ok := errors.AsType[*textproto.Error](e.err); ok {
		return fmt.Sprintf("%s: %d %s", e.step, reply.Code, reply.Msg) // the text of the error itself quotes the message
	}
	return e.step + ": " + e.err.Error()
}

// noMailbox is the code of the reply to a recipient that does not exist, and of one that a policy refuses.
const noMailbox = 550

// enhancedCode matches the subject and detail of a code of RFC 3463 that begins the text of a reply.
var enhancedCode = regexp.MustCompile(`^5\.(\d{1,3}\.\d{1,3})\b`)

// kind returns Permanent or Bounced if the server will not accept the message at a further attempt either, and Relay if it accepts no
// message at all: there is no session, or it refuses the sender for now or does not answer. Replies that ask for authentication (RFC 4954)
// are about the operator's settings. 421 to a recipient or a message may be about that one alone, so it does not hold the others back: a
// server that shuts down refuses the next session.
func (e stepError) kind() delivery.Kind {
	reply, ok := errors.AsType[*textproto.Error](e.err)
	switch e.step {
	case stepSender:
		if ok && reply.Code >= 500 {
			return delivery.Again
		}
		return delivery.Relay
	case stepRecipient, stepData:
	default: // the session was not opened
		return delivery.Relay
	}
	switch {
	case !ok:
		return delivery.Again
	case slices.Contains([]int{530, 534, 535, 538}, reply.Code), reply.Code < 500:
		return delivery.Again
	}
	if e.step == stepRecipient {
		return refusedRecipient(reply)
	}
	return delivery.Permanent
}

// refusedRecipient returns the kind of a 5xx reply to a recipient. A refusal by a policy (X.7) or of the sender's address (X.1.7, X.1.8)
// is about the relay or its configuration, which the operator can repair within the lifetime of the message.
func refusedRecipient(reply *textproto.Error) delivery.Kind {
	code := ""
	if match := enhancedCode.FindStringSubmatch(reply.Msg); match != nil {
		code = match[1]
	}
	switch {
	case strings.HasPrefix(code, "7."), code == "1.7", code == "1.8":
		return delivery.Again
	case reply.Code == noMailbox && (code == "" || strings.HasPrefix(code, "1.")):
		return delivery.Bounced
	}
	return delivery.Permanent
}

// describe returns the error of an attempt: one line without credentials, in which addresses have only their domains. The text of a
// reply comes from the server, and often repeats the recipient, or a link that a filter refused.
func (s *Sender) describe(err error, e email) error {
	if err == nil {
		return nil
	}
	text := line(err.Error(), noLimit)
	for _, secret := range []string{s.options.User, s.options.Password, e.linkToken} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	address := bare(e.to)
	local := address[:strings.LastIndexByte(address, '@')]
	text = strings.ReplaceAll(text, local+"@", "…@")
	text = regexp.MustCompile(`[^\s<>]+@`).ReplaceAllString(text, "…@")
	text = regexp.MustCompile(`(?i)(^|[\s<"':;,(])`+regexp.QuoteMeta(local)+`($|[\s>"':;,.)])`).ReplaceAllString(text, "$1…$2")
	failure := &delivery.Failure{Reason: text}
	if step, ok := errors.AsType[stepError](err); ok {
		failure.Kind = step.kind()
	}
	return failure
}
