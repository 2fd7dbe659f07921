// Signals, of which none reaches a thread that runs kernels, and the wish to stop.
//
// oneDNN's generated code keeps its stack pointer inside a buffer: the frame of a handler, even of an empty one, would
// be written over the data there.
#pragma once

namespace foldgrad {

// Starts a thread in which handlers run, and blocks signals in the calling one and in all that it starts from now on.
// To be called before there are others. Signals keep their meaning: those that stop or end a process still do.
void confine_signals();

// What SIGINT, SIGTERM, and SIGHUP where it is not ignored, do from now on. Before training there is nothing to save:
// the program ends with kExitInterrupted.
void leave_when_interrupted();
// The first only sets interrupted() and says so on stderr; a second, of whichever kind, ends the program.
void note_interrupts();
bool interrupted();

}  // namespace foldgrad
