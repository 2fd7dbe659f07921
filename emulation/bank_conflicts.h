// Finds bank conflicts in shared memory under emulation. There are 32 banks, and consecutive 4-byte words are in
// consecutive banks. If lanes of a warp access different words of one bank, a GPU needs one pass for each of these
// words.
#pragma once
#include <string>
#include <type_traits>

#include "emulation/cuda_emulation.h"

namespace foldgrad::emulation {

// While the object lives, finds the access through SharedArray that has the worst bank conflict.
class WorstBankConflict : Watch {
 public:
  WorstBankConflict();
  // Returns the number of passes that the worst access needs: the largest number of different words in one bank that
  // its lanes access together. Returns 0 if there was no access. A GPU serves 8-byte numbers for half a warp at a time.
  int ways() const;
  // Returns "KERNEL at FILE:LINE".
  const std::string& where() const;
};

// Records an access by the running thread. The n-th accesses of a warp's lanes at one source location count as one.
void shared_access(const CallSite& site, const void* at, std::size_t bytes);

// An index with the source location of its use.
struct SharedIndex {
  std::int64_t i;
  CallSite site;
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  SharedIndex(Integer i_, const CallSite& place = call_site("shared memory")) : i(std::int64_t(i_)), site(place) {}
};

// A pointer into shared memory that records each access.
template <class T>
class SharedArray {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "wider accesses are split among parts of a warp");

 public:
  class Element {
   public:
    Element(T* at, const CallSite& site) : at_(at), site_(site) {}
    operator T() const {
      shared_access(site_, at_, sizeof(T));
      return *at_;
    }
    void operator=(T value) {
      shared_access(site_, at_, sizeof(T));
      *at_ = value;
    }

   private:
    T* at_;
    CallSite site_;
  };
  explicit SharedArray(void* at) : at_(static_cast<T*>(at)) {}
  Element operator[](const SharedIndex& index) const { return {at_ + index.i, index.site}; }

 private:
  T* at_;
};

}  // namespace foldgrad::emulation
