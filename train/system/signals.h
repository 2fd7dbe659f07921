// Signal handling. Threads that compute block all signals. SIGINT, SIGTERM and SIGHUP ask training to stop.
//
// oneDNN's generated code keeps its stack pointer inside a buffer, so the frame of a signal handler would overwrite the
// data there. So a separate thread takes the signals. Alternate stacks would not help, since libraries start threads,
// too.
#pragma once

namespace foldgrad {

// Starts a thread in which handlers run, and blocks signals in the calling thread and in all that it starts later. Call
// it before there are other threads. Signals that suspend or kill the process still work.
void confine_signals();

// From now on SIGINT, SIGTERM, and SIGHUP unless it is ignored, end the program with kExitInterrupted: before training
// there is nothing to save. A message on stderr says so, unless `quietly` is set: of several processes, only one needs
// to report it.
void leave_when_interrupted(bool quietly);
// From now on the first signal only sets interrupted() and says so on stderr; any second one ends the program.
void note_interrupts();
// From now on each signal ends the program again, since nothing is left to save.
void end_when_interrupted();
bool interrupted();

}  // namespace foldgrad
