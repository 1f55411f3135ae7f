// Package logging makes the logger of a program.
//
// A line for each request is a part of the product, and a system call for each line would cost more than the line itself. So
// lines are gathered and written together: when 64 KiB have come together, a tenth of a second after the first of them, and at
// once when a line is a warning or worse. The price is that a process that is killed loses its last tenth of a second of
// ordinary lines; one that ends by itself calls Close and loses none.
//
// Nobody who logs ever waits for the reader of the log: one that hangs would otherwise stop the requests. What it does not read is kept
// up to 4 MiB; what comes then is lost, and counted in a line of its own once there is room again.
//
// A [Limiter] bounds the lines that clients or an outage can cause in any number: at most so many of a kind are written in any interval
// of a second. It counts the suppressed ones, and reports them in a line a second.
package logging
