// Tests how much the first step of SGD changes the output of a model without normalizers. According to the report
// "Transformers without normalization", this change should be Theta(eta) for a learning rate eta at every depth, and
// T-Fixup should achieve this.
#include "tests/models/vit/tiny_vit.h"

namespace foldgrad::testing {
namespace {

// Returns |f' - f| / eta, where f are the logits of 16 images before a step with learning rate eta, and f' are the
// logits after it. The step updates the parameters of all blocks, with or without their biases.
double change_by_a_step(const std::string& initialization, std::int64_t layers, double eta, bool biases) {
  VitConfig config = tiny_vit("none");
  config.image_size = 8, config.width = 32, config.ffn_width = 64, config.layers = layers;
  config.initialization = initialization, config.tfixup_scope = "all";
  Vit model(config, 1, DType::f64);
  const NamedTensors inputs = images_of(config, 16);
  const std::vector<double> before = inference_logits(model, inputs, DType::f64).values<double>();
  {
    Tape tape;
    tape.backward(model.loss(inputs, {.tape = tape, .dtype = DType::f64}, 0));
  }
  for (Parameter* p : model.parameters()) {
    if (!p->name.starts_with("blocks.") || (!biases && p->value.shape().rank() < 2)) continue;
    for (std::int64_t i = 0; i < p->value.size(); ++i) p->value.data<double>()[i] -= eta * p->grad.data<double>()[i];
  }
  const std::vector<double> after = inference_logits(model, inputs, DType::f64).values<double>();
  double squares = 0;
  for (std::size_t i = 0; i < after.size(); ++i) squares += std::pow((after[i] - before[i]) / eta, 2);
  return std::sqrt(squares);
}

// With T-Fixup, we measured 10.3, 9.6 and 9.5 for 6, 12 and 24 layers; with PyTorch's initial values, 2,312, 9,509 and
// 203,600.
TEST(VitFirstStep, IsProportionalToTheRateWithTFixupWhateverTheDepth) {
  const double six = change_by_a_step("tfixup", 6, 1e-5, /*biases=*/false);
  EXPECT_NEAR(change_by_a_step("tfixup", 6, 1e-3, false) / six, 1, 0.01) << "at a rate of 1e-3";
  for (const std::int64_t layers : {12, 24})
    EXPECT_NEAR(change_by_a_step("tfixup", layers, 1e-5, false) / six, 1, 0.1) << layers << " layers";
  const double otherwise = change_by_a_step("pytorch", 6, 1e-5, false);
  EXPECT_GT(change_by_a_step("pytorch", 24, 1e-5, false) / otherwise, 20);
}

// The argument for T-Fixup does not cover biases. The biases of each block change the output by about the same amount,
// so the change grows in proportion to the depth. We measured 480, 909 and 1,989 for 6, 12 and 24 layers.
TEST(VitFirstStep, GrowsWithTheDepthByTheBiases) {
  const double six = change_by_a_step("tfixup", 6, 1e-5, /*biases=*/true);
  EXPECT_NEAR(change_by_a_step("tfixup", 24, 1e-5, true) / six, 4, 1);
}

}  // namespace
}  // namespace foldgrad::testing
