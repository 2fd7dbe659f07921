// Prints the recordings of a Transformer's forward passes, node by node, with each normalizer before and after
// sublayers. node_order_test.py compares the outputs of two builds, by two compilers.
#include <fmt/format.h>

#include <map>

#include "models/transformer/transformer.h"

namespace foldgrad {
namespace {

void print_recording(const std::string& normalizer, bool pre_norm, bool fixnorm) {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 11;
  config.width = 32, config.ffn_width = 12, config.heads = 2, config.max_positions = 12;
  config.encoder_layers = config.decoder_layers = 1;
  config.normalizer = normalizer, config.pre_norm = pre_norm, config.fixnorm = fixnorm;
  Transformer model(config, 1);
  Tape tape;
  std::vector<Var> penalties;
  model.loss(model.random_inputs(1),
             {.tape = tape, .dtype = DType::bf16, .training = true, .seed = 1, .step = 0, .penalties = &penalties},
             /*label_smoothing=*/0.1);
  std::map<int, std::string> producer;  // value: number of the node that computes it; leaves have none
  for (const auto& node : tape.nodes()) {
    const std::string number = std::to_string(producer.size());
    std::string line = fmt::format("{} {} {}: node {}: {} of", normalizer, pre_norm ? "pre" : "post", node->scope(),
                                   number, node->name());
    // Operations whose messages contain shapes call format_to(). If Clang compiles them, they need a symbol that libfmt
    // lacks, since GCC compiled libfmt. The following call puts the symbol into the program.
    for (const int operand : node->inputs())
      fmt::format_to(std::back_inserter(line), " {}", producer.count(operand) ? producer.at(operand) : "leaf");
    fmt::print("{}\n", line);
    producer[node->output()] = number;
  }
}

}  // namespace
}  // namespace foldgrad

int main() {
  for (const foldgrad::NormalizerInfo& info : foldgrad::normalizers())
    for (const bool pre_norm : {true, false})
      if (!pre_norm || !info.post_norm_only) foldgrad::print_recording(info.name, pre_norm, info.name == "ln");
}
