// For the files that use oneDNN.
#pragma once
#include <array>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

namespace foldgrad {

// The CPU as oneDNN sees it. Every use of oneDNN must begin here: this excludes the instructions that it may not use.
dnnl::engine& onednn_engine();

// Hashes the key of a cached primitive.
struct OnednnKeyHash {
  template <std::size_t n>
  std::size_t operator()(const std::array<std::int64_t, n>& key) const {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, by words
    for (std::int64_t word : key) hash = (hash ^ std::uint64_t(word)) * 0x100000001b3;
    return hash ^ hash >> 32;
  }
};

}  // namespace foldgrad
