// A recording of a model's normalizers in one phase of training: RUN/statistics/PHASE.safetensors.
//
//   update        i64 [n]     the update of each row; an update of several batches has several rows
//   SITE.q        f32 [n, C]  mean square over the real positions
//   SITE.G        f32 [n, C]  the gradient statistic, if there is one (Normalizer::record_into)
//   SITE.var_hat, SITE.psi   f32 [n, C], SITE.flag  u8 [n, C]: only for normalizers that use channel_norm
//   SITE.dx       f32 [n, 3]  only if the statistics are mean squares, in form `paper`: how well dx agrees with the
//                             exact gradient (cosine, norm ratio, and the fraction of channels with lambda < 1;
//                             channel_values.h)
//   metadata      normalizer; sites: their names in the order of the forward pass, separated by spaces
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace foldgrad {

constexpr std::int64_t kGradientNumbers = 3;  // the number of columns of dx

struct SiteRecording {
  std::string site;
  std::int64_t channels = 0;
  std::vector<float> q = {}, G = {}, var_hat = {}, psi = {};  // [n, C]; all but q may be empty
  std::vector<std::uint8_t> flag = {};                        // [n, C] or empty
  std::vector<float> dx = {};                                 // [n, 3] or empty

  // Calls take(name, values, width) for every array.
  static void visit(auto& s, const auto& take) {
    take("q", s.q, s.channels);
    take("G", s.G, s.channels);
    take("var_hat", s.var_hat, s.channels);
    take("psi", s.psi, s.channels);
    take("flag", s.flag, s.channels);
    take("dx", s.dx, kGradientNumbers);
  }
};

struct Recording {
  std::string normalizer;
  std::vector<std::int64_t> updates;
  std::vector<SiteRecording> sites;

  std::int64_t rows() const { return std::int64_t(updates.size()); }
  // Keeps only the first `rows` rows.
  void truncate(std::int64_t rows);
  // True if both have the same normalizer at the same sites.
  bool like(const Recording& other) const;
};

// Throws FileError; if the file is not a recording, the message names the tensor at fault.
Recording read_recording(const std::string& path);
void write_recording(const std::string& path, const Recording& recording);

}  // namespace foldgrad
