#include "train/tasks/classification/images/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "engine/cpu/threads.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "train/data/lines.h"
#include "train/system/digest.h"
#include "train/system/printable.h"
#include "train/system/streams.h"
#include "train/system/unicode.h"
#include "train/tasks/classification/images/picture.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

// Keys in the metadata of a cache: the digests of its sources and of its content.
constexpr const char *kSource = "source", *kContent = "content";

// The files of a part that training leaves out.
struct LeftOut {
  struct Files {
    std::int64_t count = 0;
    fs::path first = {};

    // Adds a file, or all files below a directory.
    void add(const fs::path& path) {
      std::error_code ignored;
      std::vector<fs::path> all;
      if (fs::is_directory(path, ignored)) {
        constexpr auto kSkip = fs::directory_options::skip_permission_denied;
        for (fs::recursive_directory_iterator at(path, kSkip, ignored), end; at != end; at.increment(ignored))
          if (!at->is_directory(ignored)) all.push_back(at->path());
      } else {
        all.push_back(path);
      }
      if (count == 0 && !all.empty()) first = *std::ranges::min_element(all);
      count += std::int64_t(all.size());
    }
  };
  Files foreign, nested, hidden;

  // Returns, for example, "2 hidden (.DS_Store, ...)", with paths relative to `part`, or "" if no file was left out.
  std::string text(const fs::path& part) const {
    std::vector<std::string> texts;
    for (const auto& [files, what] :
         {std::pair(&foreign, "not PNG or JPEG"), {&nested, "in folders within a class"}, {&hidden, "hidden"}})
      if (files->count > 0)
        texts.push_back(fmt::format("{} {} ({}{})", files->count, what,
                                    printable(files->first.lexically_relative(part).string()),
                                    files->count > 1 ? ", ..." : ""));
    return fmt::format("{}", fmt::join(texts, ", "));
  }
};

struct Listing {
  std::vector<std::string> paths = {};
  std::vector<std::int64_t> labels = {};
  std::vector<std::string> classes;
  std::string source = {};  // everything that a cache depends on
  LeftOut left_out = {};
};

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// Returns the entries whose names do not begin with a dot, sorted by name.
std::vector<fs::path> entries(const std::string& directory, LeftOut& left_out) {
  std::vector<fs::path> paths = paths_in(directory);
  std::erase_if(paths, [&](const fs::path& path) {
    const bool hidden = path.filename().string().starts_with(".");
    if (hidden) left_out.hidden.add(path);
    return hidden;
  });
  return paths;
}

// Appends the images of a directory to `all`, and their properties that a cache depends on to all.source.
void list_images(const std::string& directory, const auto& label_of, Listing& all) {
  const std::size_t before = all.paths.size();
  for (const fs::path& path : entries(directory, all.left_out)) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      all.left_out.nested.add(path);
      continue;
    }
    if (!is_picture(path)) {
      all.left_out.foreign.add(path);
      continue;
    }
    const std::uintmax_t bytes = fs::file_size(path, error);
    const fs::file_time_type changed = error ? fs::file_time_type() : fs::last_write_time(path, error);
    if (error) throw FileError(path, "cannot be read", error.value());
    const std::int64_t label = label_of(path);
    all.source +=
        fmt::format("{}\n{}\n{}\n{}\n", label, path.filename().string(), bytes, changed.time_since_epoch().count());
    all.paths.push_back(path.string());
    all.labels.push_back(label);
  }
  if (all.paths.size() == before) throw FileError(directory, "has no PNG or JPEG file");
}

// Lists the images in each class's folder or, if `inner` is not empty ("/images"), in that folder within it.
Listing list_classes(const std::string& directory, const std::string& inner, std::int64_t size,
                     const std::vector<std::string>& classes) {
  std::vector<std::string> own;
  LeftOut left_out;
  for (const fs::path& path : entries(directory, left_out)) {
    if (fs::is_directory(path))
      own.push_back(path.filename().string());
    else
      left_out.foreign.add(path);
  }
  if (own.empty()) throw FileError(directory, "has no class folder");
  Listing all{.classes = classes.empty() ? own : classes, .left_out = left_out};
  all.source = fmt::format("{}\n{}\n", size, fmt::join(all.classes, "\n"));
  for (const std::string& name : own) {
    if (first_bad_utf8(name) != name.npos) throw FileError(directory + "/" + name, "must have a UTF-8 name");
    const auto found = std::ranges::find(all.classes, name);
    if (found == all.classes.end())
      throw FileError(directory, fmt::format("has a class {} without training images", in_quotes(name)));
    const std::int64_t label = found - all.classes.begin();
    list_images(
        directory + "/" + name + inner, [label](const fs::path&) { return label; }, all);
  }
  return all;
}

// Returns the labels in val_annotations.txt, by the images' names.
std::map<std::string, std::int64_t> annotated_labels(const std::string& path, const std::vector<std::string>& classes) {
  if (!file_exists(path))
    throw FileError(path, "does not exist; it must have a line for each image in val: its name, a tab, and its class");
  std::map<std::string, std::int64_t> labels;
  std::int64_t number = 0;
  for (const std::string& line : read_lines(path)) {
    ++number;
    const std::size_t tab = line.find('\t');
    if (tab == line.npos)
      throw FileError(path, fmt::format("line {} must be a name, a tab, and a class, got {}", number, in_quotes(line)));
    const std::string name = line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1);
    const auto found = std::ranges::find(classes, name);
    if (found == classes.end())
      throw FileError(path, fmt::format("line {} has a class {} without training images", number, in_quotes(name)));
    labels[line.substr(0, tab)] = found - classes.begin();
  }
  return labels;
}

Listing list_annotated(const std::string& directory, std::int64_t size, const std::vector<std::string>& classes) {
  const std::string annotations = directory + "/val_annotations.txt";
  const auto labels = annotated_labels(annotations, classes);
  const auto label_of = [&labels](const fs::path& path) {
    const auto found = labels.find(path.filename().string());
    if (found == labels.end()) throw FileError(path.string(), "has no line in val_annotations.txt");
    return found->second;
  };
  Listing all{.classes = classes, .source = fmt::format("{}\n{}\n", size, fmt::join(classes, "\n"))};
  list_images(directory + "/images", label_of, all);
  if (all.paths.size() < labels.size())
    throw FileError(annotations,
                    fmt::format("has lines for {} images, but val/images has {}", labels.size(), all.paths.size()));
  return all;
}

const char* name_of(ImagePart part, FolderLayout layout) {
  if (part == ImagePart::train) return "train";
  return layout == FolderLayout::tiny_imagenet ? "val" : "test";
}

Listing list(const std::string& directory, ImagePart part, std::int64_t size, const std::vector<std::string>& classes,
             FolderLayout layout) {
  const std::string path = directory + "/" + name_of(part, layout);
  if (layout == FolderLayout::classes) return list_classes(path, "", size, classes);
  return part == ImagePart::train ? list_classes(path, "/images", size, classes) : list_annotated(path, size, classes);
}

// Decodes on all threads. If several files cannot be read, the message names the first of them.
ImageSet decoded(const Listing& listing, std::int64_t size) {
  const std::int64_t count = std::int64_t(listing.paths.size());
  ImageSet set{Tensor::empty({count, size, size, kColours}, DType::u8), Tensor::of({count}, listing.labels),
               listing.classes};
  std::uint8_t* pixels = set.pixels.data<std::uint8_t>();
  parallel(count, [&](std::int64_t i) {
    const Picture picture = square(read_picture(listing.paths[i]), size);
    std::ranges::copy(picture.pixels, pixels + i * size * size * kColours);
  });
  return set;
}

// Returns an empty set unless the file is complete and was made from the listed images.
ImageSet read_cache(const std::string& path, const Listing& listing, std::int64_t size) try {
  const SafetensorsFile file = read_safetensors(path);
  const ImageSet set{file.tensors.at("pixels"), file.tensors.at("labels"), listing.classes};
  check(set);
  const bool fits = set.size() == std::int64_t(listing.paths.size()) && set.height() == size && set.width() == size;
  const bool same = file.metadata.at(kSource) == sha256(listing.source) && file.metadata.at(kContent) == digest_of(set);
  return fits && same ? set : ImageSet();
} catch (const std::exception&) {  // the file is missing, damaged or not a cache
  return {};
}

// Prints the note once, even if several ranks read the part.
void note_left_out(const std::string& directory, const Listing& listing) {
  static std::mutex one_at_a_time;
  static std::set<std::string> said;
  const std::string text = listing.left_out.text(directory);
  const std::lock_guard lock(one_at_a_time);
  if (!text.empty() && said.insert(directory + text).second) say("note: {}: files left out: {}\n", directory, text);
}

}  // namespace

FolderCounts count_folder(const std::string& directory, ImagePart part, FolderLayout layout) {
  std::vector<std::string> classes;
  if (layout == FolderLayout::tiny_imagenet && part != ImagePart::train)
    classes = list(directory, ImagePart::train, /*size=*/0, {}, layout).classes;
  const Listing listing = list(directory, part, /*size=*/0, classes, layout);
  FolderCounts counts{listing.classes, std::vector<std::int64_t>(listing.classes.size()),
                      listing.left_out.text(directory + "/" + name_of(part, layout))};
  for (const std::int64_t label : listing.labels) ++counts.images[std::size_t(label)];
  return counts;
}

std::string digest_of(const ImageSet& images) {
  const auto bytes = [](const auto* data, std::int64_t count) {
    return std::string_view(reinterpret_cast<const char*>(data), std::size_t(count) * sizeof *data);
  };
  return sha256(fmt::format("{}\n{}\n{}\n", sha256(bytes(images.pixels.data<std::uint8_t>(), images.pixels.size())),
                            sha256(bytes(images.labels.data<std::int64_t>(), images.size())),
                            fmt::join(images.classes, "\n")));
}

ImageSet read_folder(const std::string& directory, ImagePart part, std::int64_t size,
                     const std::vector<std::string>& classes, FolderLayout layout) {
  const std::string name = name_of(part, layout), path = directory + "/" + name;
  const Listing listing = list(directory, part, size, classes, layout);
  note_left_out(path, listing);
  const std::string cache = fmt::format("{}/{}-{}.images", directory, name, size);
  if (ImageSet set = read_cache(cache, listing, size); set.labels.defined()) return set;
  ImageSet set = decoded(listing, size);
  try {
    write_safetensors(cache, {{"pixels", set.pixels}, {"labels", set.labels}},
                      {{kSource, sha256(listing.source)}, {kContent, digest_of(set)}});
  } catch (const FileError& e) {
    say("warning: {}; images will be decoded again next time\n", e.what());
  }
  return set;
}

}  // namespace foldgrad
