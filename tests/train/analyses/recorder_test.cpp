#include "train/analyses/recorder.h"

#include <cmath>

#include "engine/device.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "tests/harness/file_test.h"

namespace foldgrad::testing {
namespace {

constexpr std::int64_t kRows = 5, kChannels = 3;
const std::vector<double> kX = {1, 2, -3, 0.5, -1, 2, 3, 1, 1, -2, 0.25, 4, 1.5, -0.5, -1};
const std::vector<double> kDy = {0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 1, 1.1, 1.2, 0, 0, 0};
constexpr std::int64_t kCounted = 4;  // the last row is padding

// Runs a forward and a backward pass with the gain (2, 0.5, -1) and the bias (0.1, 0.2, 0.3).
void pass(Normalizer& norm, Device device, const std::vector<double>& x = kX) {
  const auto on_device = [&](const std::vector<double>& values, Shape shape) {
    return Tensor::of<double>(std::move(shape), values).to(device);
  };
  for (Parameter* p : norm.parameters()) {
    if (p->name == norm.site() + ".weight") p->value = on_device({2, 0.5, -1}, {3});
    if (p->name == norm.site() + ".bias") p->value = on_device({0.1, 0.2, 0.3}, {3});
  }
  Tape tape;
  const Var in = tape.variable(on_device(x, {kRows, kChannels}));
  tape.backward(norm.apply(in, {.training = true, .counted = kCounted}), on_device(kDy, {kRows, kChannels}));
}

std::vector<double> mean_squares() {
  std::vector<double> q(kChannels);
  for (std::int64_t i = 0; i < 4 * kChannels; ++i) q[i % kChannels] += kX[i] * kX[i] / 4;
  return q;
}

// Returns (1/n) sum gamma dy z of each channel, where the sum is over the n = 4 rows before the padding. z(r, c) is the
// normalized input.
template <class Z>
std::vector<double> gradient_statistics(const Z& z) {
  constexpr double kGain[] = {2, 0.5, -1};
  std::vector<double> G(kChannels);
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t c = 0; c < kChannels; ++c) G[c] += kGain[c] * kDy[r * kChannels + c] * z(r, c) / 4;
  return G;
}

std::string normalizer_of(const std::string& site) { return site.substr(0, site.find('.')); }

void expect_near(const std::vector<float>& got, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t c = 0; c < want.size(); ++c)  // the file stores f32
    EXPECT_NEAR(got[c], want[c], 1e-6 * std::abs(want[c]) + 1e-9) << what << " of channel " << c;
}

class RecorderTest : public FileTest {
 protected:
  std::vector<std::unique_ptr<Normalizer>> norms_;

  Recorder recorder(const std::vector<std::string>& names, const std::vector<RecordPhase>& phases,
                    Device device = Device::cpu) {
    std::vector<Normalizer*> all;
    norms_.clear();
    for (const std::string& name : names) {
      norms_.push_back(make_normalizer(name, {}, name + ".norm", kChannels, DType::f64, device));
      all.push_back(norms_.back().get());
    }
    return Recorder(all, phases, files_ / "statistics");
  }
  // Runs update `n` with `batches` batches. Each batch passes through every normalizer.
  void update(Recorder& r, std::int64_t n, Device device = Device::cpu, const std::vector<double>& x = kX,
              int batches = 1) {
    r.begin(n);
    for (int batch = 0; batch < batches; ++batch)
      for (const auto& norm : norms_) pass(*norm, device, x);
    r.end(n);
  }
  std::string path(const std::string& phase = "begin") { return files_ / ("statistics/" + phase + ".safetensors"); }
};

TEST_F(RecorderTest, HasWhatIsDefinedForEveryNormalizer) {
  const std::vector<double> q = mean_squares();
  const auto by_rms = [&](std::int64_t r, std::int64_t c) { return kX[r * kChannels + c] / std::sqrt(q[c] + 1e-5); };
  const auto by_layer = [&](std::int64_t r, std::int64_t c) {
    double mean = 0, variance = 0;
    for (int k = 0; k < kChannels; ++k) mean += kX[r * kChannels + k] / kChannels;
    for (int k = 0; k < kChannels; ++k) variance += std::pow(kX[r * kChannels + k] - mean, 2) / kChannels;
    return (kX[r * kChannels + c] - mean) / std::sqrt(variance + 1e-5);
  };
  for (const Device device : {Device::cpu, Device::cuda}) {
    if (device == Device::cuda && !cuda_available()) continue;
    Recorder r = recorder({"un", "qmbn", "ln", "none"}, {{"begin", 4, 4}}, device);
    for (const std::int64_t n : {3, 4, 5}) update(r, n, device);
    r.save();
    const Recording read = read_recording(path());
    EXPECT_EQ(read.updates, std::vector<std::int64_t>{4});
    ASSERT_EQ(read.sites.size(), 4u);
    for (const SiteRecording& s : read.sites) {
      expect_near(s.q, q, s.site + ".q");
      const bool of_batch = normalizer_of(s.site) == "un" || normalizer_of(s.site) == "qmbn";
      EXPECT_EQ(s.flag, of_batch ? std::vector<std::uint8_t>(kChannels, 0) : std::vector<std::uint8_t>());
      expect_near(s.var_hat, of_batch ? q : std::vector<double>(), s.site + ".var_hat");  // un warms up
    }
    const std::vector<double> G = gradient_statistics(by_rms);
    for (int i : {0, 1}) {
      expect_near(read.sites[i].G, G, read.sites[i].site + ".G");
      expect_near(read.sites[i].psi, G, read.sites[i].site + ".psi");
    }
    expect_near(read.sites[2].G, gradient_statistics(by_layer), "ln.G");
    EXPECT_TRUE(read.sites[3].G.empty());  // "none" returns x itself
  }
}

TEST_F(RecorderTest, ARecordingWithoutSitesOrChannelsIsRefused) {
  const auto error_with = [&](const std::string& sites, const NamedTensors& q) {
    NamedTensors tensors = q;
    tensors["update"] = Tensor::of<std::int64_t>({1}, {1});
    write_safetensors(files_ / "file", tensors, {{"normalizer", "un"}, {"sites", sites}});
    return error_of<FileError>([&] { read_recording(files_ / "file"); });
  };
  EXPECT_EQ(error_with("", {}), "@file: a recording must have at least one site, got none");
  EXPECT_EQ(error_with("s", {{"s.q", Tensor::zeros({1, 0}, DType::f32)}}),
            "@file: s.q must have two axes and at least one channel, got [1, 0]");
}

TEST_F(RecorderTest, UpdatesThatAreMadeAgainTakeThePlaceOfTheFirstAttempt) {
  Recorder r = recorder({"qmbn"}, {{"begin", 1, 3}});
  std::vector<double> twice = kX;
  for (double& x : twice) x *= 2;
  for (const std::int64_t n : {1, 2, 3, 4}) update(r, n, Device::cpu, twice, 2);
  for (const std::int64_t n : {2, 3}) update(r, n, Device::cpu, kX, 2);
  r.save();
  const Recording read = read_recording(path());
  EXPECT_EQ(read.updates, (std::vector<std::int64_t>{1, 1, 2, 2, 3, 3}));
  const double q = mean_squares()[0];
  for (std::int64_t row = 0; row < 6; ++row)
    EXPECT_NEAR(read.sites[0].q[row * kChannels], row < 2 ? 4 * q : q, 1e-6 * q) << row;
}

TEST_F(RecorderTest, WithoutABackwardPassThereIsNoGradient) {
  Recorder r = recorder({"un", "ln"}, {{"begin", 1, 2}});
  r.begin(1);
  Tape tape(/*recording=*/false);
  for (const auto& norm : norms_)
    norm->apply(tape.constant(Tensor::of<double>({kRows, kChannels}, kX)), {.training = true});
  r.end(1);
  r.save();
  for (const SiteRecording& s : read_recording(path()).sites) {
    EXPECT_EQ(s.q.size(), std::size_t(kChannels));
    EXPECT_TRUE(s.G.empty() && s.psi.empty()) << s.site;
  }
  r.begin(1);
  pass(*norms_[0], Device::cpu);
  norms_[1]->apply(tape.constant(Tensor::of<double>({kRows, kChannels}, kX)), {.training = true});
  r.end(1);
  EXPECT_EQ(message<std::invalid_argument>([&] { update(r, 2); }),
            "record: ln.norm has a gradient in some passes but not in others");
}

TEST_F(RecorderTest, GoesOnWithItsOwnFileAlone) {
  using Lines = std::vector<std::string>;
  const auto record = [&](Recorder& r, std::int64_t from, std::int64_t to) {
    for (std::int64_t n = from; n <= to; ++n) update(r, n);
    r.save();
  };
  {
    Recorder r = recorder({"qmbn"}, {{"begin", 1, 4}});
    record(r, 1, 3);
  }
  {
    Recorder r = recorder({"qmbn"}, {{"begin", 1, 4}});
    EXPECT_EQ(r.resume(2), Lines());
    record(r, 3, 5);
    EXPECT_EQ(read_recording(path()).updates, (std::vector<std::int64_t>{1, 2, 3, 4}));
  }
  EXPECT_EQ(recorder({"ln"}, {{"begin", 1, 4}}).resume(2),
            Lines{path() + ": is not a recording of this run's model; its earlier values are lost"});
  EXPECT_EQ(recorder({"qmbn"}, {{"end", 2, 4}}).resume(2),
            Lines{path("end") + ": is missing, so the recording up to update 2 is lost"});
  // Resuming from an update before the phase removes the file.
  Recorder r = recorder({"qmbn"}, {{"begin", 1, 4}});
  EXPECT_EQ(r.resume(0), Lines());
  r.save();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(RecorderTest, SitesThatTakePartDifferentlyAreRefused) {
  Recorder r = recorder({"qmbn", "ln"}, {{"begin", 1, 4}});
  r.begin(1);
  pass(*norms_[0], Device::cpu);
  EXPECT_EQ(message<std::invalid_argument>([&] { r.end(1); }),
            "record: qmbn.norm is applied 1 times in an update, but ln.norm is applied 0 times");
}

}  // namespace
}  // namespace foldgrad::testing
