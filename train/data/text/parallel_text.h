// Sentences and their translations: two files of plain text, one sentence a line, line i of one for line i of the
// other.
#pragma once
#include <string>
#include <vector>

#include "train/data/lines.h"

namespace foldgrad {

struct ParallelText {
  std::vector<std::string> source, target;  // as many of each
};

// Throws FileError also for files without a line and for different numbers of lines. Lines may be empty: they are
// sentences without words.
ParallelText read_parallel_text(const std::string& source, const std::string& target);
// DIRECTORY/NAME.SOURCE_LANGUAGE and DIRECTORY/NAME.TARGET_LANGUAGE: "train.de" and "train.en".
ParallelText read_parallel_text(const std::string& directory, const std::string& name,
                                const std::string& source_language, const std::string& target_language);

}  // namespace foldgrad
