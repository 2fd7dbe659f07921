// Keeps oneDNN and OpenBLAS on the thread that calls them. Our threads already share the pieces of a product
// (pieces.h), and a library's threads would compete with them for the processors.
#pragma once
#include <omp.h>

namespace foldgrad {

// While an object exists, the libraries use one thread for calls from this thread.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

}  // namespace foldgrad
