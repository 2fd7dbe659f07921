#include "engine/cuda/runtime/no_wait.h"

#include <atomic>
#include <string>

#include "engine/where.h"

namespace foldgrad {
namespace {

thread_local int scopes = 0;
std::atomic<std::int64_t> waits{0};

void refuse_in_scopes(const char* what) {
  if (scopes == 0) return;
  const std::string* scope = scope_at_hand();
  throw HostWait(std::string("host wait: ") + what + (scope && !scope->empty() ? " at " + *scope : ""));
}

}  // namespace

NoHostWait::NoHostWait() { ++scopes; }
NoHostWait::~NoHostWait() { --scopes; }

std::int64_t host_waits() { return waits; }

void before_wait(const char* what) {
  refuse_in_scopes(what);
  ++waits;
}

void before_system_allocation() { refuse_in_scopes("memory of the device that no cache has"); }

}  // namespace foldgrad
