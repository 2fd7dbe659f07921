// Translates text line by line with a trained model, which may be folded:  translate MODEL <source.txt >target.txt
#include <exception>
#include <iostream>
#include <string>

#include "train/commands/load_model_as.h"
#include "train/tasks/translation/translation.h"

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: translate MODEL\n";
    return 2;
  }
  const auto model = foldgrad::load_transformer(argv[1]);
  const foldgrad::Vocabulary vocabulary =
      foldgrad::load_vocabulary(foldgrad::find_model_directory(argv[1]), model->config());
  const foldgrad::InferenceTransformer inference(*model, foldgrad::DType::f32);
  for (std::string line; std::getline(std::cin, line);) {
    const auto best = foldgrad::best_hypotheses(inference, {vocabulary.encode_source(line)}, {.beam = 5});
    std::cout << vocabulary.decode_target(best.at(0).ids) << std::endl;
  }
} catch (const std::exception& e) {
  std::cerr << "translate: " << e.what() << '\n';
  return 1;
}
