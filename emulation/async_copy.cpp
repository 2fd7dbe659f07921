#include <cstring>
#include <vector>

#include "emulation/global_memory.h"
#include "emulation/lanes.h"

namespace foldgrad::emulation {
namespace {

constexpr std::size_t kBytes = 16;

struct Copy {
  CallSite site;
  void* shared;
  const void* global;  // null if the copy writes zeros
  int group;
  bool done;
};

struct Queue {
  std::vector<Copy> copies;
  int groups = 0;  // number of committed groups
};
Queue queues[kMaxThreads];

Queue& my_queue() { return queues[thread_number()]; }

void carry_out(const Copy& copy) {
  if (copy.global)
    std::memcpy(copy.shared, copy.global, kBytes);
  else
    std::memset(copy.shared, 0, kBytes);
}

}  // namespace

void async_copy(const CallSite& site, void* shared, const void* global, bool inside) {
  shared_offset(site, shared, kBytes);
  global_access(site, global, kBytes, inside);
  Queue& queue = my_queue();
  const Copy copy{site, shared, inside ? global : nullptr, queue.groups, copies_at_once()};
  std::memset(shared, 0xff, kBytes);
  if (copy.done) carry_out(copy);
  queue.copies.push_back(copy);
}

void async_commit(const CallSite& site) {
  calling_lane(site, 0);
  ++my_queue().groups;
}

void async_wait(const CallSite& site, int pending) {
  calling_lane(site, 0);
  Queue& queue = my_queue();
  std::vector<Copy> left;
  for (const Copy& copy : queue.copies) {
    if (copy.group >= queue.groups - pending)
      left.push_back(copy);
    else if (!copy.done)
      carry_out(copy);
  }
  queue.copies.swap(left);
}

void forget_copies(int count) {
  for (int i = 0; i < count; ++i) {
    queues[i].copies.clear();
    queues[i].groups = 0;
  }
}

void check_copies(const Lane* lanes, int count) {
  for (int i = 0; i < count; ++i) {
    if (queues[i].copies.empty()) continue;
    const CallSite& site = queues[i].copies.front().site;
    throw fault(lanes[i],
                std::string("has returned without waiting for its ") + site.function + " at " + place_of(site));
  }
}

}  // namespace foldgrad::emulation
