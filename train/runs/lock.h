// One process at a time writes to a run.
#pragma once
#include <string>

namespace foldgrad {

class RunLock {
 public:
  // Creates the directory `run` when it is not there. Throws FileError when another process holds the lock. The kernel
  // releases it with the process, however that ends; the file RUN/lock, which says who it was, stays.
  explicit RunLock(const std::string& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace foldgrad
