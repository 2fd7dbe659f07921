#include <cmath>

#include "ops/positions/positions.h"
#include "tests/train/checkpoints/contents.h"
#include "tests/train/model_program.h"

namespace foldgrad::testing {
namespace {

class RecalibrateCommand : public ModelProgram {
 protected:
  RecalibrateCommand() : ModelProgram("bn") {}

  std::vector<double> statistic(const std::string& directory, const std::string& name) {
    return load_transformer(directory)->state().at(name).to(DType::f64).values<double>();
  }
  // Returns the mean and the unbiased variance of the first encoder normalizer's input, sqrt(width) E[id] + position.
  std::map<std::string, std::vector<double>> first_site() {
    const Tensor table = model_->source_table().value, places = sinusoidal_table(16, 8, DType::f64);
    std::vector<std::vector<double>> rows;
    for (const std::string& line : lines_of(kSource)) {
      const Ids ids = vocabulary_.encode_source(line);
      for (std::size_t t = 0; t < ids.size(); ++t) {
        std::vector<double> row;
        for (std::int64_t c = 0; c < 8; ++c)
          row.push_back(std::sqrt(8.0) * table.data<float>()[ids[t] * 8 + c] +
                        places.data<double>()[std::int64_t(t + 2) * 8 + c]);
        rows.push_back(row);
      }
    }
    std::vector<double> mean(8), variance(8);
    for (const auto& row : rows)
      for (std::size_t c = 0; c < 8; ++c) mean[c] += row[c] / double(rows.size());
    for (const auto& row : rows)
      for (std::size_t c = 0; c < 8; ++c) variance[c] += std::pow(row[c] - mean[c], 2) / double(rows.size() - 1);
    const std::string site = "encoder.layers.0.self_attn_layer_norm.";
    return {{site + "run_mean", mean}, {site + "run_var", variance}};
  }
};

// The first normalizer's input consists of embeddings, so it does not depend on running statistics. The text is one
// batch. If the batch has the statistic b, k passes change a running average from s to alpha^k s + (1 - alpha^k) b;
// alpha is 0.9.
TEST_F(RecalibrateCommand, AveragesTheStatisticsOfTheTextAndLeavesAllElse) {
  EXPECT_EQ(output(std::string("recalibrate @m -o @r") + kText),
            filled("@r: recomputed the statistics of @m over 1 batches\n"));
  output(std::string("recalibrate @m -o @r4") + kText + "--batches 4");
  for (const auto& [name, want] : first_site()) {
    const std::vector<double> first = statistic(files_ / "m", name), one = statistic(files_ / "r", name),
                              four = statistic(files_ / "r4", name);
    for (std::size_t c = 0; c < first.size(); ++c) {
      EXPECT_NEAR(one[c], 0.9 * first[c] + 0.1 * want[c], 1e-5) << name;
      EXPECT_NEAR(four[c], std::pow(0.9, 4) * first[c] + (1 - std::pow(0.9, 4)) * want[c], 1e-5) << name;
    }
  }
  const auto model = load_transformer(files_ / "r");
  EXPECT_TRUE(same_bits(model->values(), model_->values()));
  EXPECT_EQ(read_bytes(files_ / "r/config.json"), read_bytes(files_ / "m/config.json"));
  EXPECT_EQ(read_bytes(files_ / "r/vocabulary/dict.source.txt"), read_bytes(files_ / "m/vocabulary/dict.source.txt"));
  EXPECT_NE(statistic(files_ / "r", "decoder.layer_norm.run_var"),
            statistic(files_ / "m", "decoder.layer_norm.run_var"));
  expect_error(std::string("recalibrate @m -o @r") + kText, 3,
               "@r: already holds a model; remove it, or choose another directory with -o");
}

TEST_F(RecalibrateCommand, RefusesModelsThatRememberNothing) {
  TransformerConfig config = model_->config();
  config.normalizer = "ln";
  Transformer other(config, 1);
  write_model_directory(files_ / "ln", other);
  expect_error(std::string("recalibrate @ln -o @r") + kText, 2,
               "recalibrate: @ln has no running statistics: its normalizer is ln");
}

class AverageCommand : public ModelProgram {};

TEST_F(AverageCommand, AveragesWeightsAndStatistics) {
  Transformer other(model_->config(), 1);
  for (auto&& [name, tensor] : other.state())
    tensor.copy_from(Tensor::full(tensor.shape(), is_floating(tensor.dtype()) ? 3 : 5, DType::f64).to(tensor.dtype()));
  write_model_directory(files_ / "other", other);
  EXPECT_EQ(output("average @m @other -o @a"), filled("@a: the average of 2 models\n  @m\n  @other\n"));
  const auto a = load_transformer(files_ / "a");
  const auto state = a->state();
  // In the two models, the variances are 1 and 3, the window entries 0 and 3, and the counters 0 and 5. The mean of
  // counters is rounded down.
  EXPECT_EQ(state.at("encoder.layer_norm.run_var").values<float>(), std::vector<float>(8, 2));
  EXPECT_EQ(state.at("encoder.layer_norm.win_sq").values<float>(), std::vector<float>(4 * 8, 1.5f));
  EXPECT_EQ(state.at("encoder.layer_norm.iters").values<std::int64_t>(), std::vector<std::int64_t>{2});
  const auto mean = a->values(), x = model_->values(), y = other.values();
  for (const auto& [name, tensor] : mean)
    for (std::int64_t i = 0; i < tensor.size(); ++i)
      EXPECT_EQ(tensor.data<float>()[i],
                float((double(x.at(name).data<float>()[i]) + y.at(name).data<float>()[i]) / 2));
  EXPECT_TRUE(std::filesystem::exists(files_ / "a/vocabulary/vocabulary.json"));
}

TEST_F(AverageCommand, TakesTheLastOfARun) {
  for (const std::int64_t step : {1, 2, 4}) {
    for (Parameter* p : model_->parameters())
      p->value.copy_from(Tensor::full(p->value.shape(), double(step), DType::f32));
    save_step(step);
  }
  output("average --last 2 @run -o @a");
  EXPECT_EQ(load_transformer(files_ / "a")->values().at("encoder.layer_norm.bias").values<float>(),
            std::vector<float>(8, 3));
  write_bytes(files_ / "run/checkpoints/LATEST", "step-00000002\n");  // the run was rolled back to this checkpoint
  output("average --last 2 @run -o @back");
  EXPECT_EQ(load_transformer(files_ / "back")->values().at("encoder.layer_norm.bias").values<float>(),
            std::vector<float>(8, 1.5));
  write_bytes(files_ / "run/checkpoints/LATEST", "step-00000004\n");
  expect_error("average --last 2 @run -o @run", 3,
               "@run: is a run, which has its own models; choose another directory");
  expect_error("average --last 4 @run -o @b", 4,
               "@run/checkpoints: there must be at least 4 checkpoints, got 3 (output.keep sets how many are kept)");
  expect_error("average --last 2 @run @m -o @b", 2, "average: --last must be used with exactly one run, got 2 paths");
  TransformerConfig config = model_->config();
  config.normalizer_options["eps"] = "1e-3";
  Transformer other(config, 1);
  write_model_directory(files_ / "eps", other);
  expect_error("average @m @eps -o @b", 4, "@eps/config.json: must match that of @m");
}

}  // namespace
}  // namespace foldgrad::testing
