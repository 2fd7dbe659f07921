#include "train/analyses/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "engine/files/file.h"
#include "engine/files/safetensors.h"

namespace foldgrad {
namespace {

const Tensor& needed_tensor(const SafetensorsFile& file, const std::string& path, const std::string& name) {
  const auto found = file.tensors.find(name);
  if (found == file.tensors.end()) throw FileError(path, fmt::format("a recording must have a tensor {}", name));
  return found->second;
}

// Moves a tensor out of the file. Returns an empty tensor if the file does not have it.
template <class T>
std::vector<T> take(SafetensorsFile& file, const std::string& path, const std::string& name, const Shape& shape) {
  const auto found = file.tensors.extract(name);
  if (!found) return {};
  const Tensor& tensor = found.mapped();
  if (tensor.dtype() != dtype_of<T> || tensor.shape() != shape)
    throw FileError(path, fmt::format("{} must be {} {}, got {} {}", name, foldgrad::name(dtype_of<T>), shape,
                                      foldgrad::name(tensor.dtype()), tensor.shape()));
  return tensor.values<T>();
}

std::string note(const SafetensorsFile& file, const std::string& path, const char* name) {
  const auto found = file.metadata.find(name);
  if (found == file.metadata.end())
    throw FileError(path, fmt::format("is not a recording: its metadata has no \"{}\"", name));
  return found->second;
}

SiteRecording take_site(SafetensorsFile& file, const std::string& path, const std::string& site, std::int64_t rows) {
  const Shape q = needed_tensor(file, path, site + ".q").shape();
  if (q.rank() != 2 || q[1] < 1)
    throw FileError(path, fmt::format("{}.q must have two axes and at least one channel, got {}", site, q));
  SiteRecording s{.site = site, .channels = q[1]};
  SiteRecording::visit(s, [&]<class T>(const char* name, std::vector<T>& values, std::int64_t width) {
    values = take<T>(file, path, site + "." + name, {rows, width});
  });
  return s;
}

}  // namespace

void Recording::truncate(std::int64_t rows) {
  if (rows >= this->rows()) return;
  updates.resize(rows);
  for (SiteRecording& s : sites)
    SiteRecording::visit(s, [rows](const char*, auto& values, std::int64_t width) {
      if (!values.empty()) values.resize(rows * width);
    });
}

bool Recording::like(const Recording& other) const {
  const auto same = [](const SiteRecording& a, const SiteRecording& b) {
    return a.site == b.site && a.channels == b.channels;
  };
  return normalizer == other.normalizer && std::ranges::equal(sites, other.sites, same);
}

Recording read_recording(const std::string& path) {
  SafetensorsFile file = read_safetensors(path);
  Recording recording;
  recording.normalizer = note(file, path, "normalizer");
  const std::int64_t rows = needed_tensor(file, path, "update").size();
  recording.updates = take<std::int64_t>(file, path, "update", {rows});
  if (!std::ranges::is_sorted(recording.updates)) throw FileError(path, "update must not fall");
  std::istringstream sites(note(file, path, "sites"));
  for (std::string site; sites >> site;) recording.sites.push_back(take_site(file, path, site, rows));
  if (recording.sites.empty()) throw FileError(path, "a recording must have at least one site, got none");
  if (!file.tensors.empty())
    throw FileError(
        path, fmt::format("has a tensor {} of a site that its metadata does not list", file.tensors.begin()->first));
  return recording;
}

void write_recording(const std::string& path, const Recording& recording) {
  const std::int64_t n = recording.rows();
  NamedTensors tensors{{"update", Tensor::of<std::int64_t>({n}, recording.updates)}};
  std::string sites;
  for (const SiteRecording& s : recording.sites) {
    sites += (sites.empty() ? "" : " ") + s.site;
    SiteRecording::visit(s, [&]<class T>(const char* name, const std::vector<T>& values, std::int64_t width) {
      if (!values.empty()) tensors[s.site + "." + name] = Tensor::of<T>({n, width}, values);
    });
  }
  write_safetensors(path, tensors, {{"normalizer", recording.normalizer}, {"sites", sites}});
}

}  // namespace foldgrad
