// Attention of single queries to rows of a cache, for decoding step by step.
//
//   [ATT-7]  y_r = sum_j p_rj v_j,  p_rj = exp(s_rj) / sum_i exp(s_ri),  s_rj = q_r . k_j / sqrt(D),  for each head,
//            over the rows j of the cache that query r names; zero where it names none
#pragma once
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

// The rows of a cache that each query attends to. Made once for all layers, whose caches are alike.
class CachePlaces {
 public:
  void add(std::int64_t block, std::int64_t row) { places_.push_back(block << 32 | row); }
  void end_query() { begins_.push_back(std::int64_t(places_.size())); }
  // Copies them to the device; what is added afterwards does not count. Throws std::invalid_argument the second time.
  void upload(Device device);

 private:
  friend Tensor cached_attention(const Tensor&, const std::vector<Tensor>&, const CachePlaces&, int, std::int64_t);

  std::vector<std::int64_t> places_, begins_{0};
  Tensor uploaded_places_, uploaded_begins_;
};

// Returns y [queries, H D]. q: [queries, .], whose first H D columns are the queries; blocks: of the cache, [rows, .],
// whose last 2 H D columns are a key and its value, all equally wide. So projections to queries, keys and values side
// by side can be both.
// Throws std::invalid_argument unless there is room for `heads` heads of `width` columns, blocks are of q's dtype and
// device, and places uploaded there, as many queries as q has. Does not check if the rows exist.
Tensor cached_attention(const Tensor& q, const std::vector<Tensor>& blocks, const CachePlaces& places, int heads,
                        std::int64_t width);

}  // namespace foldgrad
