package conformance

// An Unchecked is a sentence of the contract that no check covers, and the reason.
type Unchecked struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// notChecked returns what no check covers; each report ends with it.
func notChecked() []Unchecked {
	return []Unchecked{
		{"Notifications are in the transaction of a write.", "No method returns notifications."},
		{"`notify_subscribers` suppresses a notification.", "No method returns notifications."},
		{"`component_ids` are stored.", "No method returns the components of an incident."},
		{"Idempotency keys survive a restart and expire after a day.",
			"No method restarts the service or changes its clock."},
		{"A resumed stream contains every revocation, also of transactions that overlap.", "The check revokes one token."},
		{"A cancelled read stops its work inside the service.", "The client has already gone."},
	}
}
