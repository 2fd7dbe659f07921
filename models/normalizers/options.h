// The list of normalizers: names, kinds and options, as text for people and files, and the values that were chosen.
#pragma once
#include <cstdint>
#include <map>

#include "models/options/names.h"
#include "models/options/option.h"

namespace foldgrad {

struct NormalizerOption : Option {
  std::string default_value;              // "=NAME" for the value of another option
  std::string default_in_reference = {};  // where it differs, for normalizers with an option `mode`
  bool told_by_model = false;             // unless it is given; encoder_layers, decoder_layers or stack
};

// The kind of a normalizer's function at inference; Normalizer::inference() has the numbers.
enum class Inference {
  affine,       // an affine map per channel: it can be folded away
  linear,       // the same after centring: it can be folded away, into a matrix
  elementwise,  // a function of each element
  online        // statistics of the tokens at hand
};
constexpr auto names_of(Inference) { return std::array{"affine", "linear", "elementwise", "online"}; }

class NormalizerOptions;

// The first training iterations of a normalizer, in which it computes otherwise than later on and at inference.
struct NormalizerWarmup {
  std::int64_t iterations = 0;
  std::vector<std::string> options = {};  // names of the options that set this number
  std::string meanwhile = {};             // for warnings: "uses no averages"
};

struct NormalizerInfo {
  std::string name;
  Inference inference;
  std::string summary;
  std::vector<NormalizerOption> options;
  bool post_norm_only = false;                                     // it scales the sums of post-norm
  bool outlier_test = false;                                       // [UN-19], with the options and the state of `un`
  NormalizerWarmup (*warmup)(const NormalizerOptions&) = nullptr;  // null if all iterations are alike

  bool offline() const { return inference == Inference::affine || inference == Inference::linear; }
};

inline NormalizerOption number_option(const char* name, const char* default_value, const char* help, Range range = {}) {
  return {{name, help, Option::Kind::number, range}, default_value};
}
inline NormalizerOption integer_option(const char* name, const char* default_value, const char* help, Range range) {
  return {{name, help, Option::Kind::integer, range}, default_value};
}
inline NormalizerOption flag_option(const char* name, const char* default_value, const char* help,
                                    const char* in_reference = "") {
  return {{name, help, Option::Kind::flag}, default_value, in_reference};
}
inline NormalizerOption choice_option(const char* name, std::vector<std::string> choices, const char* default_value,
                                      const char* help, const char* in_reference = "") {
  return {{name, help, Option::Kind::choice, {}, std::move(choices)}, default_value, in_reference};
}

// Returns the same option by another name.
inline NormalizerOption renamed(NormalizerOption option, const char* name, const char* help) {
  option.name = name, option.help = help;
  return option;
}

// The chosen values; options that were not given have their defaults.
class NormalizerOptions {
 public:
  // Throws std::invalid_argument for a name that is not known, naming the nearest, and for a value out of range.
  // `normalizer` is for the messages.
  NormalizerOptions(const std::string& normalizer, const std::vector<NormalizerOption>& known,
                    const std::map<std::string, std::string>& given);

  // Throw std::out_of_range for names that are not options: a mistake of the caller's code.
  double number(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const;
  const std::string& text(const std::string& name) const { return values_.at(name); }
  const std::map<std::string, std::string>& all() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace foldgrad
