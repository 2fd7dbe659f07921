// Attention of single queries to rows of a cache, for decoding step by step on any device. What stands behind it on the
// CPU is step_attention.h.
//
//   [ATT-7]  y_r = sum_j p_rj v_j,  p_rj = exp(s_rj) / sum_i exp(s_ri),  s_rj = q_r . k_j / sqrt(D),  for each head,
//            over the rows j of the cache that query r names; zero where it names none
#pragma once
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

// For each query which rows of a cache it attends to. Made once and used for all layers, whose caches are alike.
class CachePlaces {
 public:
  void add(std::int64_t block, std::int64_t row) { places_.push_back(block << 32 | row); }
  void end_query() { begins_.push_back(std::int64_t(places_.size())); }
  std::int64_t queries() const { return std::int64_t(begins_.size()) - 1; }
  // Copies them to the device; nothing can be added any more. Throws std::invalid_argument, the second time too.
  void upload(Device device);

 private:
  friend Tensor cached_attention(const Tensor&, const std::vector<Tensor>&, const CachePlaces&, int);

  std::vector<std::int64_t> places_, begins_{0};
  Tensor uploaded_places_, uploaded_begins_;
};

// q: [queries, H D]. blocks: of the cache, [rows, 2 H D], a key and its value side by side; rows may differ in number.
// y: as q. Throws std::invalid_argument unless blocks are of q's dtype and device, and places uploaded there, as many
// queries as q has. Whether the rows exist is not looked at.
Tensor cached_attention(const Tensor& q, const std::vector<Tensor>& blocks, const CachePlaces& places, int heads);

}  // namespace foldgrad
