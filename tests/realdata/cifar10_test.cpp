// Checks that the images of the published CIFAR-10, as we read them, have the properties that the authors state.
#include <algorithm>

#include "tests/realdata/real_data.h"
#include "train/data/fetch.h"
#include "train/tasks/classification/images/cifar.h"

namespace foldgrad::testing {
namespace {

TEST(Cifar10, HasAsManyImagesOfEveryClass) {
  const RealData files("cifar-10-batches-bin", "cifar-10-batches-bin.tar.xz");
  FOLDGRAD_SKIP_WITHOUT(files, "cifar-10-batches-bin");
  for (const auto& [part, per_class] : {std::pair(ImagePart::train, 5000), std::pair(ImagePart::test, 1000)}) {
    const ImageSet images = read_cifar(files.path(), cifar10_layout(), part);
    std::vector<int> of_class(10);
    for (std::int64_t i = 0; i < images.size(); ++i) ++of_class[images.label(i)];
    EXPECT_EQ(of_class, std::vector<int>(10, per_class));
    if (part == ImagePart::test) continue;
    // These are the constants, to four digits, with which training images are usually normalized.
    const ImageStatistics s = image_statistics(images);
    const double mean[] = {0.4914, 0.4822, 0.4465}, std[] = {0.2470, 0.2435, 0.2616};
    for (int c = 0; c < 3; ++c) {
      EXPECT_NEAR(s.mean[c], mean[c], 0.00006);
      EXPECT_NEAR(s.std[c], std[c], 0.00006);
    }
  }
}

TEST(Cifar10, FilesHaveTheDigestsThatFetchingAsksFor) {
  const RealData files("cifar-10-batches-bin", "cifar-10-batches-bin.tar.xz");
  FOLDGRAD_SKIP_WITHOUT(files, "cifar-10-batches-bin");
  const auto set = std::ranges::find(data_sets(), std::string("cifar10"), &DataSet::name);
  ASSERT_NE(set, data_sets().end());
  EXPECT_EQ(set->digests.size(), 6u);
  EXPECT_TRUE(has_images(*set, files.path()));
}

}  // namespace
}  // namespace foldgrad::testing
