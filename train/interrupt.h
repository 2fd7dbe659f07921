// SIGINT and SIGTERM as a wish to stop.
#pragma once

namespace foldgrad {

// From now on the first of these signals only sets interrupted() and says so on stderr; the second ends the program.
void catch_interrupts();
bool interrupted();

}  // namespace foldgrad
