// oneDNN's engine, and a cache for its primitives. oneDNN compiles a primitive for each shape.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/gemm/one_thread.h"
#include "engine/memory.h"

namespace foldgrad {

// Returns oneDNN's engine for the CPU. Call this before any other use of oneDNN, since it excludes instructions that
// oneDNN must not use on this machine.
dnnl::engine& onednn_engine();
// Returns this thread's stream.
inline dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

// Returns false if oneDNN does not support a case, or supports it only with generic loops, which are slower than ours.
bool onednn_covers(const auto& chosen) { return chosen && std::string(chosen.impl_info_str()).rfind("ref", 0) != 0; }

// A primitive and its arguments. The addresses of the arguments may change from call to call.
struct OnednnPrimitive {
  dnnl::primitive primitive;  // empty if oneDNN does not cover the case
  std::unordered_map<int, dnnl::memory> arguments;
  std::size_t scratch_bytes = 0;

  dnnl::memory add(int id, const dnnl::memory::desc& desc) {
    return arguments[id] = dnnl::memory(desc, onednn_engine(), nullptr);
  }
  template <class Primitive>
  void set(const auto& chosen) {
    primitive = Primitive(chosen);
    add(DNNL_ARG_SCRATCHPAD, chosen.scratchpad_desc());
    scratch_bytes = chosen.scratchpad_desc().get_size();
  }
  // Runs the primitive on these addresses. Skips null addresses, since their arguments were not added. oneDNN has no
  // const arguments, but it does not write to its inputs.
  void run(std::initializer_list<std::pair<int, const void*>> addresses) {
    const auto scratch = memory::allocate(Device::cpu, scratch_bytes);
    for (const auto& [id, address] : addresses)
      if (address) arguments.at(id).set_data_handle(const_cast<void*>(address));
    if (scratch) arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch.get());
    primitive.execute(onednn_stream(), arguments);
    onednn_stream().wait();
  }
};

// A cache of objects by key. Each thread needs its own cache, since the cache has no lock.
template <class Value, std::size_t n, std::size_t most>
class OnednnCache {
 public:
  using Key = std::array<std::int64_t, n>;

  // Returns the object for the key. If there is none yet, calls make(). If the cache already holds `most` objects,
  // drops all of them first.
  template <class Make>
  Value& of(const Key& key, const Make& make) {
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    if (values_.size() == most) values_.clear();
    return values_.emplace(key, make()).first->second;
  }

 private:
  std::map<Key, Value> values_;
};

}  // namespace foldgrad
