// The families of the library. A configuration that does not name a family belongs to the first one.
#include "models/cct/cct.h"
#include "models/convnext/convnext.h"
#include "models/efficientnet_lite/efficientnet_lite.h"
#include "models/gpt/gpt.h"
#include "models/nfnet/nfnet.h"
#include "models/swin/swin.h"
#include "models/t2t/t2t.h"
#include "models/transformer/transformer.h"
#include "models/vit/vit.h"
#include "train/tasks/classification/classification.h"
#include "train/tasks/language/language.h"
#include "train/tasks/translation/translation.h"

namespace foldgrad {

std::deque<Family> library_families() {
  return {make_family<Transformer>("transformer", kTranslation),
          make_family<Vit>("vit", kClassification),
          make_family<Cct>("cct", kClassification),
          make_family<T2t>("t2t", kClassification),
          make_family<Swin>("swin", kClassification),
          make_family<ConvNext>("convnext", kClassification),
          make_family<EfficientNetLite>("efficientnet_lite", kClassification),
          make_family<NfNet>("nfnet", kClassification),
          make_family<Gpt>("gpt", kLanguage)};
}

}  // namespace foldgrad
