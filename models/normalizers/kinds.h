// What the files that define normalizers share; who only uses normalizers includes normalizer.h.
//
// A program can add one of its own (docs/library.md):
//
//   class Mine final : public Normalizer { public: explicit Mine(const NormalizerSite& site); ... };
//   register_normalizer({{"mine", Inference::affine, "what it does", {eps_option("1e-5")}}, make<Mine>});
#pragma once
#include "models/normalizers/normalizer.h"

namespace foldgrad {

// The arguments of make_normalizer, checked.
struct NormalizerSite {
  const NormalizerInfo& info;
  const NormalizerOptions& options;
  const std::string& site;
  std::int64_t channels;
  DType dtype;
  Device device;

  // SITE.NAME with `size` equal values; one per channel if no size is given.
  Parameter parameter(const char* name, double value, std::int64_t size = -1) const {
    return {site + "." + name, Tensor::full({size < 0 ? channels : size}, value, dtype, device)};
  }
  DType state_dtype() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
};

struct NormalizerKind {
  NormalizerInfo info;
  std::unique_ptr<Normalizer> (*make)(const NormalizerSite&);
};

template <class N>
std::unique_ptr<Normalizer> make(const NormalizerSite& site) {
  return std::make_unique<N>(site);
}

// Makes `kind` one of normalizers(), for models, configurations, checks, folding and export as for the library's own.
// Vectors that normalizers() gave out before are no longer valid: call it at the start of the program, from one thread.
// Throws std::invalid_argument for a name that is empty or taken.
void register_normalizer(NormalizerKind kind);

std::vector<NormalizerKind> channel_normalizers();    // un, bn, qmbn, mabn, pn, pn_star, rbn
std::vector<NormalizerKind> mixed_normalizers();      // repbn, prepbn
std::vector<NormalizerKind> row_normalizers();        // ln, rmsnorm, scalenorm, fixnorm, groupnorm, ...
std::vector<NormalizerKind> stateless_normalizers();  // dyt, derf, affine, none

// Options that several have.
inline NormalizerOption eps_option(const char* default_value) {
  return {"eps", NormalizerOption::Kind::number, default_value, "added where something is divided", 0, 1, true};
}
inline NormalizerOption alpha_option(const char* default_value) {
  return {"alpha", NormalizerOption::Kind::number, default_value, "weight of the old value in running averages", 0, 1};
}

}  // namespace foldgrad
