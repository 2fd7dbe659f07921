// Signal handling: threads that compute block all signals; SIGINT, SIGTERM and SIGHUP ask a training to stop.
//
// oneDNN's generated code keeps its stack pointer inside a buffer: the frame of a handler, even of an empty one, would
// overwrite the data there. So one thread that does nothing else takes the signals; an alternate stack for each thread
// would not do, since OpenMP starts its own.
#pragma once

namespace foldgrad {

// Starts a thread in which handlers run, and blocks signals in the calling one and in all that it starts later. Call it
// before there are others. Signals that stop or end a process still do.
void confine_signals();

// Makes SIGINT, SIGTERM, and SIGHUP unless it is ignored, end the program with kExitInterrupted from now on: before
// training there is nothing to save. It says so on stderr, unless `quietly`, as one process of several is enough.
void leave_when_interrupted(bool quietly);
// Makes the first of them from now on only set interrupted() and say so on stderr; any second one ends the program.
void note_interrupts();
// Lets each of them end the program again, once there is nothing left to save.
void end_when_interrupted();
bool interrupted();

}  // namespace foldgrad
