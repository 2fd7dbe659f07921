// Bank conflicts of shared memory on the host: its words of 4 bytes lie in 32 banks in turn, and a GPU takes as many
// passes over it as lanes of a warp ask for different words of one bank.
#pragma once
#include <string>
#include <type_traits>

#include "emulation/cuda_emulation.h"

namespace foldgrad::emulation {

// The worst access through SharedArray while it lives.
class WorstBankConflict : Watch {
 public:
  WorstBankConflict();
  // Returns how many passes over shared memory it takes: the most words of one bank that the lanes ask for together, 0
  // without any access. A GPU takes numbers of 8 bytes by half a warp at a time.
  int ways() const;
  // Returns "KERNEL at FILE:LINE".
  const std::string& where() const;
};

// Notes an access by the running thread. A lane's n-th at a place in the source goes together with the others' n-th.
void shared_access(const CallSite& site, const void* at, std::size_t bytes);

// An index with the place in the source where it is written.
struct SharedIndex {
  std::int64_t i;
  CallSite site;
  template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
  SharedIndex(Integer i_, const CallSite& place = call_site("shared memory")) : i(std::int64_t(i_)), site(place) {}
};

// A pointer into shared memory whose accesses are counted.
template <class T>
class SharedArray {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "wider accesses go by parts of a warp");

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
