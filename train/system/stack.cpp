#include "train/system/stack.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cstddef>
#include <system_error>
#include <thread>

namespace foldgrad {

int with_enough_stack(const std::function<int()>& program) {
  constexpr std::size_t kEnough = std::size_t(1) << 20, kStack = std::size_t(8) << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kEnough) return program();
  pthread_attr_t large;
  pthread_attr_init(&large);
  pthread_attr_setstacksize(&large, kStack);
  pthread_setattr_default_np(&large);  // for the thread below and all later ones
  pthread_attr_destroy(&large);
  int result = 0;
  std::thread thread;
  try {
    thread = std::thread([&] { result = program(); });
  } catch (const std::system_error&) {  // no thread can be started
  }
  if (!thread.joinable()) return program();
  thread.join();
  return result;
}

}  // namespace foldgrad
