#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace foldgrad::testing {

// What is printed meanwhile goes nowhere.
class Silence {
 public:
  Silence() : before_(dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    ::close(nowhere);
  }
  ~Silence() {
    std::fflush(stdout);
    dup2(before_, STDOUT_FILENO);
    ::close(before_);
  }

 private:
  const int before_;
};

}  // namespace foldgrad::testing
