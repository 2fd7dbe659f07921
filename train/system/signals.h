// Signal handling. Threads that compute block all signals. SIGINT, SIGTERM and SIGHUP ask training to stop.
//
// In oneDNN's generated code the stack pointer may point into a buffer, so that the frame of a signal handler would
// overwrite data there. Therefore a separate thread handles the signals. Alternate signal stacks would not help, since
// libraries start threads, too.
#pragma once

namespace foldgrad {

// Starts a thread in which handlers run, and blocks signals in the calling thread and in all threads that it starts
// later. Call it before any other thread exists. Signals that suspend or kill the process still work.
void confine_signals();

// Makes SIGINT, SIGTERM and, unless it is ignored, SIGHUP end the program with kExitInterrupted: before training there
// is nothing to save. A message on stderr says so, unless `quietly` is set; only one of several processes needs to
// print it.
void leave_when_interrupted(bool quietly);
// After this call, the first signal only sets interrupted() and prints a message; a second one ends the program.
void note_interrupts();
// After this call, each signal ends the program again, since nothing is left to save.
void end_when_interrupted();
bool interrupted();

}  // namespace foldgrad
