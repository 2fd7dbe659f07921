// The names, kinds and options of normalizers, as text for people and files, and the values chosen for the options.
#pragma once
#include <cstdint>
#include <map>

#include "models/options/names.h"
#include "models/options/option.h"

namespace foldgrad {

struct NormalizerOption : Option {
  std::string default_value;              // "=NAME" means the value of the option NAME
  std::string default_in_reference = {};  // default with mode = reference; empty if equal to default_value
  // True if the model sets the option when the user does not: encoder_layers, decoder_layers, stack, sublayer.
  bool told_by_model = false;
  bool newer = false;  // added after 0.3; config_hash() ignores it unless the user sets it
};

// The kind of function that a normalizer computes at inference; Normalizer::inference() returns its numbers.
enum class Inference {
  affine,       // an affine map per channel, which can be folded away
  linear,       // an affine map after centring, which can be folded away into a matrix
  elementwise,  // a function of each element
  online        // needs statistics of the current tokens
};
constexpr auto names_of(Inference) { return std::array{"affine", "linear", "elementwise", "online"}; }

class NormalizerOptions;

// The first training iterations, in which a normalizer does not yet compute what it computes later and at inference.
struct NormalizerWarmup {
  std::int64_t iterations = 0;
  std::vector<std::string> options = {};  // the options that set `iterations`
  std::string meanwhile = {};             // text for warnings, such as "uses no averages"
};

// Constants that a normalizer sets in the sublayers around it: the post-norm residual sum is `scale` * x + branch, and
// `initial_gain` multiplies the initial weights of the value and output projections and of both feed-forward layers.
struct ResidualConstants {
  double scale = 1, initial_gain = 1;
};

struct NormalizerInfo {
  std::string name;
  Inference inference;
  std::string summary;
  std::vector<NormalizerOption> options;
  bool post_norm_only = false;                                        // scales post-norm sums; pre-norm rejects it
  bool outlier_test = false;                                          // runs [UN-19]; has the options and state of `un`
  NormalizerWarmup (*warmup)(const NormalizerOptions&) = nullptr;     // null if there is no warm-up
  ResidualConstants (*residual)(const NormalizerOptions&) = nullptr;  // null if both are 1

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

// Returns the option with the given name and help text.
inline NormalizerOption renamed(NormalizerOption option, const char* name, const char* help) {
  option.name = name, option.help = help;
  return option;
}

// The chosen values, with defaults for options that were not given.
class NormalizerOptions {
 public:
  // Throws std::invalid_argument if a name is unknown (the message suggests the nearest one) or a value is out of
  // range. `normalizer` is the normalizer's name in messages.
  NormalizerOptions(const std::string& normalizer, const std::vector<NormalizerOption>& known,
                    const std::map<std::string, std::string>& given);

  // Throw std::out_of_range for names that are not options, which is an error in the calling code.
  double number(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const;
  const std::string& text(const std::string& name) const { return values_.at(name); }
  const std::map<std::string, std::string>& all() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace foldgrad
