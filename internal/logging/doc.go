// Package logging provides the logger of a program.
//
// Every request has a log line, and a system call per line would cost more than the line itself. So
// lines are buffered and written together: at 64 KiB, 100 ms after the first line, and at once
// after a line of level warning or above. A process that is killed loses the lines below that level
// of its last 100 ms; one that calls Close loses none.
//
// Logging never waits for the reader of the log, because a reader that hangs would stop the
// requests. Up to 4 MiB of unread lines are buffered; further lines are dropped, and a line reports
// their number once there is room again.
//
// A [Limiter] bounds the lines that clients or an outage can cause: at most a number of each kind
// is written in any interval of its length, such as a second. It counts suppressed lines and
// reports them.
package logging
