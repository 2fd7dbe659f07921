#include "train/system/stack.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cstddef>

namespace foldgrad {
namespace {

constexpr std::size_t kEnough = std::size_t(1) << 20, kStack = std::size_t(8) << 20;

struct Call {
  const std::function<int()>& program;
  int result = 0;
};

void* carry_out(void* call) {
  static_cast<Call*>(call)->result = static_cast<Call*>(call)->program();
  return nullptr;
}

}  // namespace

int with_enough_stack(const std::function<int()>& program) {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kEnough) return program();
  pthread_attr_t large;
  pthread_attr_init(&large);
  pthread_attr_setstacksize(&large, kStack);
  pthread_setattr_default_np(&large);  // also for threads that start later
  Call call{program};
  pthread_t thread;
  const bool runs = pthread_create(&thread, &large, carry_out, &call) == 0;
  pthread_attr_destroy(&large);
  if (!runs) return program();
  pthread_join(thread, nullptr);
  return call.result;
}

}  // namespace foldgrad
