#include "models/onnx/graph.h"

#include <bit>
#include <string_view>

#include "engine/check.h"

namespace foldgrad {
namespace {

// Protobuf's wire format (protobuf.dev/programming-guides/encoding): a message is a sequence of fields in any order.
// Each field begins with a key, which contains the field's number and the kind of its value.
namespace wire {

enum Kind { kVarint = 0, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += char(value | 0x80);
  return bytes + char(value);
}
std::string key(int field, Kind kind) { return varint(std::uint64_t(field << 3 | kind)); }
std::string number(int field, std::int64_t value) { return key(field, kVarint) + varint(std::uint64_t(value)); }
std::string number(int field, float value) {
  static_assert(std::endian::native == std::endian::little);  // the files are little-endian
  return key(field, kFixed32).append(reinterpret_cast<const char*>(&value), sizeof value);
}
// Returns the key and the length that precede a string, bytes or a message.
std::string head(int field, std::uint64_t bytes) { return key(field, kBytes) + varint(bytes); }
std::string field(int field, std::string_view value) { return head(field, value.size()).append(value); }

}  // namespace wire

using wire::field, wire::number;

// Bytes reserved for nodes and names, out of the 2^31 - 1 that protobuf readers accept.
constexpr std::int64_t kRoomForNodes = 16 << 20;
constexpr std::int64_t kMostWeights = (std::int64_t(1) << 31) - 1 - kRoomForNodes;

// The field numbers and enumerators below are from onnx.proto.
std::int64_t type_of(DType dtype) {
  FOLDGRAD_CHECK(dtype == DType::f32 || dtype == DType::i64, "onnx: values must be f32 or i64, got {}", name(dtype));
  constexpr std::int64_t kFloat = 1, kInt64 = 7;
  return dtype == DType::f32 ? kFloat : kInt64;
}

// Returns a ValueInfoProto.
std::string value_info(const std::string& name, DType dtype, const OnnxFile::NamedSizes& sizes) {
  std::string shape;
  for (const auto& size : sizes) {
    const auto* known = std::get_if<std::int64_t>(&size);
    shape += field(1, known ? number(1, *known) : field(2, std::get<std::string>(size)));
  }
  return field(1, name) + field(2, field(1, number(1, type_of(dtype)) + field(2, shape)));
}

// Returns an AttributeProto.
std::string attribute(const OnnxGraph::Attribute& a) {
  constexpr std::int64_t kFloat = 1, kInt = 2, kInts = 7;
  std::string message = field(1, a.first);
  if (const auto* integer = std::get_if<std::int64_t>(&a.second))
    return message + number(3, *integer) + number(20, kInt);
  if (const auto* real = std::get_if<double>(&a.second)) return message + number(2, float(*real)) + number(20, kFloat);
  for (const std::int64_t i : std::get<OnnxGraph::Sizes>(a.second)) message += number(8, i);
  return message + number(20, kInts);
}

}  // namespace

std::string OnnxFile::input(const std::string& name, DType dtype, const NamedSizes& sizes) {
  inputs_and_outputs_ += field(11, value_info(name, dtype, sizes));
  return name;
}

void OnnxFile::output(const std::string& value, const std::string& name, DType dtype, const NamedSizes& sizes) {
  for (Node& node : nodes_) {
    for (std::string& input : node.inputs)
      if (input == value) input = name;
    if (node.output == value) node.output = name;
  }
  inputs_and_outputs_ += field(12, value_info(name, dtype, sizes));
}

std::string OnnxFile::node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<Attribute>& attributes) {
  std::string name = place_ + "/" + op;
  if (const int others = named_[name]++) name += "_" + std::to_string(others);
  Node node{inputs, name, field(3, name) + field(4, op)};
  for (const Attribute& a : attributes) node.rest += field(5, attribute(a));
  nodes_.push_back(std::move(node));
  return name;
}

std::string OnnxFile::initializer(const std::string& name, const Tensor& value) {
  if (!initializers_.insert(name).second) return name;
  bytes_ += std::int64_t(value.bytes());
  FOLDGRAD_CHECK(bytes_ <= kMostWeights, "onnx: {} must have at most {} bytes of weights, got {} after adding {}",
                 name_, kMostWeights, bytes_, name);
  std::string tensor = wire::number(2, type_of(value.dtype())) + field(8, name);
  for (const std::int64_t size : value.shape()) tensor += wire::number(1, size);
  weights_.emplace_back(tensor + wire::head(9, value.bytes()), value);
  return name;
}

void OnnxFile::metadata(const std::string& key, const std::string& value) {
  metadata_ += field(14, field(1, key) + field(2, value));
}

void OnnxFile::write(AtomicFile& file) const {
  std::string graph = field(2, name_) + inputs_and_outputs_;
  for (const Node& node : nodes_) {
    std::string message = field(2, node.output) + node.rest;
    for (const std::string& input : node.inputs) message += field(1, input);
    graph += field(1, message);
  }
  const auto message_bytes = [](const auto& weight) { return weight.first.size() + weight.second.bytes(); };
  std::size_t bytes = graph.size();
  for (const auto& weight : weights_) bytes += wire::head(5, message_bytes(weight)).size() + message_bytes(weight);
  // kVersion is the IR version of the release with this operator set.
  constexpr std::int64_t kVersion = 8, kOperatorSet = 17;
  file.write(wire::number(1, kVersion) + field(2, "foldgrad") + metadata_ + field(8, wire::number(2, kOperatorSet)) +
             wire::head(7, bytes) + graph);
  for (const auto& weight : weights_) {
    file.write(wire::head(5, message_bytes(weight)) + weight.first);
    file.write(weight.second.raw(), weight.second.bytes());
  }
}

}  // namespace foldgrad
