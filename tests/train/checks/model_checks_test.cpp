// Tests that every check of `foldgrad verify` passes for sound models and finds its kind of fault.
#include "train/checks/model_checks.h"

#include <cmath>
#include <span>

#include "engine/node_grads.h"
#include "models/fold/model.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/reduce/reduce.h"
#include "tests/train/used_model.h"
#include "train/checks/certificate.h"
#include "train/tasks/families.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad::testing {
namespace {

using Outcome = CheckResult::Outcome;

std::string failures(const std::vector<CheckResult>& results) {
  std::string text;
  for (const CheckResult& r : results)
    if (r.outcome == Outcome::failed) text += r.name + ": " + r.measured + "\n";
  return text;
}

FoldedModel untied(Model& model) { return fold(model, {FoldOptions::Tied::untie, true}); }

// Returns the model in f32, as if it had been read from a file.
std::unique_ptr<Transformer> stored(Transformer& exact) {
  auto model = std::make_unique<Transformer>(exact.config(), 1);
  model->copy_from(exact);
  return model;
}

std::vector<CheckResult> check(Transformer& model, const Fold& fold = untied) {
  return check_model(model, fold, random_probe(model), family_of(model).task->checks);
}

TEST(ModelChecks, PassForSoundModels) {
  struct Case {
    std::string normalizer;
    Options options = {};
  };
  for (const auto& [normalizer, options] :
       {Case{"un", {{"warmup", "6"}}},
        {"un", {{"warmup", "100"}}},
        {"un", {{"mode", "reference"}, {"warmup", "6"}}},
        {"un", {{"warmup", "6"}, {"forward_average", "arithmetic"}, {"granularity", "pooled"}}},
        {"mabn", {{"warmup", "6"}}},
        {"mabn", {{"mode", "reference"}, {"warmup", "6"}}},
        {"bn"},
        {"ln"},
        {"centernorm"},
        {"none"}})
    for (bool pre_norm : {true, false}) {
      const auto results = check(*stored(*used_model(normalizer, options, pre_norm)));
      EXPECT_EQ(failures(results), "") << normalizer << pre_norm;
      EXPECT_EQ(results.size(), 9u);
      if (normalizer == "un" && options.size() == 1 && options.at("warmup") == "6") {
        for (const CheckResult& r : results) EXPECT_EQ(r.outcome, Outcome::passed) << r.name << ": " << r.measured;
      }
    }
}

// A wrong fold of the f32 model fails only the check in f32, and a wrong fold of the f64 model fails only the two
// checks in f64. A model with impossible windows fails the check of its windows.
TEST(ModelChecks, AreOfTheModelAndOfWhatFoldsIt) {
  const auto exact = used_un();
  const auto failed = [&](DType broken, double change) {
    std::vector<std::string> names;
    for (const CheckResult& r : check(*stored(*exact), [&](Model& m) {
           FoldedModel folded = untied(m);
           Tensor bias = folded.model->values().at("decoder.output_projection.bias");
           if (m.dtype() == broken && broken == DType::f64) bias.data<double>()[5] += change;
           if (m.dtype() == broken && broken == DType::f32) bias.data<float>()[5] += float(change);
           return folded;
         }))
      if (r.outcome == Outcome::failed) names.push_back(r.name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(failed(DType::f32, 0.1), (Names{"folded = unfolded, f32"}));
  EXPECT_EQ(failed(DType::f64, 100),
            (Names{"folded = unfolded, f64", "greedy translations of the folded model are the same"}));
  const auto noisy = stored(*exact);
  for (auto&& [name, tensor] : noisy->state())
    if (name.ends_with("win_sq")) tensor.copy_from(Tensor::full(tensor.shape(), 1e6, DType::f32));
  EXPECT_EQ(failures(check(*noisy)).rfind("running variances agree with the windows", 0), 0u);
}

TEST(ModelChecks, AWrongFoldAndOtherTranslationsAreFound) {
  const auto model = used_un();
  const auto wrong_fold = [&](const std::string& name, double change) {
    FoldedModel folded = fold(*model, {FoldOptions::Tied::untie});
    folded.model->values().at(name).data<double>()[5] += change;
    return folded;
  };
  const auto logits = [](Model& m) { return inference_logits(m, translation_batch().named(), DType::f64); };
  const auto outcome = [&](const FoldedModel& folded) {
    return check_same_logits("", logits(*folded.model), logits(*model), 1e-11).outcome;
  };
  EXPECT_EQ(outcome(wrong_fold("encoder.layers.0.fc1.bias", 0)), Outcome::passed);
  for (const char* name : {"encoder.layers.0.fc1.bias", "encoder.layers.0.fc1.weight",
                           "decoder.layers.0.encoder_attn.q_proj.weight", "decoder.output_projection.bias"})
    for (const double change : {1e-8, double(NAN)})
      EXPECT_EQ(outcome(wrong_fold(name, change)), Outcome::failed) << name << change;
  const auto translations = [&](double change) {
    const FoldedModel folded = wrong_fold("decoder.output_projection.bias", change);
    return check_translations(*model, transformer_of(folded), translation_batch().source);
  };
  EXPECT_EQ(translations(0).outcome, Outcome::passed);
  EXPECT_EQ(translations(100).outcome, Outcome::failed);
  EXPECT_EQ(translations(100).measured, "0 of 3");
}

TEST(ModelChecks, OtherSentencesThatChangeOneSentenceAreFound) {
  const auto model = used_un();
  const NamedTensors batch = translation_batch().named();
  const auto outcome = [&](std::int64_t sentence, double factor) {
    std::int64_t alone = 0;
    const LogitsOf logits_of = [&](const NamedTensors& b) {
      const Tensor z = inference_logits(*model, b, DType::f64);
      if (examples_in(b) == 1 && alone++ == sentence)
        for (double& v : std::span(z.data<double>(), std::size_t(z.size()))) v *= factor;
      return z;
    };
    return check_others("sentence", logits_of, batch).outcome;
  };
  EXPECT_EQ(outcome(0, 1), Outcome::passed);
  for (const double factor : {1 + 1e-9, double(NAN)})
    for (std::int64_t s = 0; s < examples_in(batch); ++s) EXPECT_EQ(outcome(s, factor), Outcome::failed) << s << factor;
}

// y = x, with a wrong gradient: dx is 0 in [begin, end), and factor * dy elsewhere.
struct WrongNode {
  double factor;
  std::int64_t begin, end;
  const char* name() const { return "wrong"; }
  void backward(NodeGrads& grads) {
    const GradOut<double> dx = grads.out<double>(0);
    for (std::int64_t i = 0; i < grads.dy().size(); ++i)
      dx.put(i, begin <= i && i < end ? 0 : factor * grads.dy().data<double>()[i]);
  }
  void describe(Description&) const {}
};
Var wrong(const Var& x, double factor, std::int64_t begin = 0, std::int64_t end = 0) {
  return x.tape().record(x.value().clone(), {x}, WrongNode{.factor = factor, .begin = begin, .end = end});
}

TEST(ModelChecks, WrongGradientsAreFound) {
  const auto model = used_un();
  const auto outcome = [&](double factor) {
    const LossOf loss = [&](Tape& tape) {
      return wrong(model->loss(translation_batch(), {.tape = tape, .dtype = DType::f64}, 0.1), factor);
    };
    return check_gradients(model->parameters(), loss).outcome;
  };
  EXPECT_EQ(outcome(1), Outcome::passed);
  for (double factor : {0.999, 1.001, -1.0, 0.0, double(NAN)}) EXPECT_EQ(outcome(factor), Outcome::failed) << factor;
}

// The loss is 100 + 1e-8 sum x^2, so its gradients are about 1e-8, and its rounding error is about 1e-14.
TEST(ModelChecks, WrongGradientsAreFoundHoweverSmall) {
  Parameter x{"x", randn({400}, 1)};
  const auto outcome = [&](double factor, std::int64_t begin, std::int64_t end) {
    const LossOf loss = [&](Tape& tape) {
      const Var w = wrong(tape.parameter(x), factor, begin, end);
      return add(tape.constant(Tensor::full({}, 100, DType::f64)), scale(sum(mul(w, w)), 1e-8));
    };
    return check_gradients({&x}, loss).outcome;
  };
  EXPECT_EQ(outcome(1, 0, 0), Outcome::passed);
  EXPECT_EQ(outcome(1.5, 0, 0), Outcome::failed);
  for (std::int64_t begin : {0, 100, 200})
    EXPECT_EQ(outcome(1, begin, begin + 200), Outcome::failed)
        << "half of the gradient is 0, starting at element " << begin;
}

// The loss is x + 1.5e6 x^3 at x = 0, so a central difference with step h has the error 1.5e6 h^2. With the longest
// step, 1e-5, this is 1.5 times the tolerance; with the next step, 1e-6, it is only 0.015 times the tolerance.
TEST(ModelChecks, AShorterStepDecidesWhereTheLongestSeesCurvature) {
  Parameter x{"x", Tensor::zeros({1}, DType::f64)};
  const LossOf loss = [&](Tape& tape) {
    const Var w = tape.parameter(x);
    const Var square = mul(w, w);
    const Var cube = mul(square, w);
    return sum(add(w, scale(cube, 1.5e6)));
  };
  const CheckResult r = check_gradients({&x}, loss);
  EXPECT_EQ(r.outcome, Outcome::passed) << r.measured;
}

TEST(ModelChecks, AParameterWithoutAGradientHasNoneInDifferences) {
  Parameter used{"used", randn({4}, 1)}, unused{"unused", randn({4}, 2)}, hidden{"hidden", randn({4}, 3)};
  const LossOf sound = [&](Tape& tape) { return sum(tape.parameter(used)); };
  EXPECT_EQ(check_gradients({&used, &unused}, sound).outcome, Outcome::passed);
  const LossOf unsound = [&](Tape& tape) {
    return sum(add(tape.parameter(used), tape.constant(hidden.value.clone())));
  };
  EXPECT_EQ(check_gradients({&used, &hidden}, unsound).outcome, Outcome::failed);
}

TEST(Certificate, TellsOfAWrongFold) {
  TransformerConfig config = tiny_config("un");
  Transformer model(config, 3);
  randomize(model, 5, 0.3);
  const FoldOptions options{FoldOptions::Tied::untie};
  const Probe probe = random_probe(model);
  const auto difference = [&](double change) {
    const FoldedModel folded = fold(model, options);
    folded.model->values().at("encoder.layers.0.fc1.bias").data<float>()[3] += float(change);
    const auto proof = certificate(model, folded, options, probe);
    std::map<std::string, double> sites{{"", proof.at("difference").at("f32").at("relative").get<double>()}};
    for (const auto& site : proof.at("sites"))
      if (site.contains("difference")) sites[site.at("site")] = site.at("difference").at("f32").at("relative");
    return sites;
  };
  for (const auto& [site, off] : difference(0)) EXPECT_LE(off, 5e-6) << site;
  const auto wrong = difference(0.1);
  EXPECT_GT(wrong.at(""), 1e-4);
  EXPECT_GT(wrong.at("encoder.layers.0.final_layer_norm"), 1e-3);
  EXPECT_LE(wrong.at("encoder.layers.0.self_attn_layer_norm"), 5e-6);  // this site precedes the fault
}

// If all results of a model are 0, the results of the folded model may still be tiny rounding errors. The relative
// difference must then be 1, not infinity.
TEST(Certificate, HasNumbersAlone) {
  EXPECT_EQ(difference(Tensor::full({2}, 1e-9, DType::f64), Tensor::zeros({2}, DType::f64)).relative, 1);
  EXPECT_EQ(difference(Tensor::zeros({2}, DType::f64), Tensor::zeros({2}, DType::f64)).relative, 0);
}

}  // namespace
}  // namespace foldgrad::testing
