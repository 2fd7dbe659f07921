// The only file that includes protoc's output for onnx.proto; cmake/FoldgradOnnx.cmake explains how it is linked.
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx.pb.h>

#include <exception>
#include <map>
#include <set>
#include <stdexcept>

#include "engine/check.h"
#include "models/onnx/graph.h"

namespace foldgrad {
namespace {

// Bytes reserved for nodes and names, of the 2^31 - 1 that protobuf can write.
constexpr std::int64_t kRoomForNodes = 16 << 20;
constexpr std::int64_t kMostWeights = (std::int64_t(1) << 31) - 1 - kRoomForNodes;

onnx::TensorProto::DataType type_of(DType dtype) {
  FOLDGRAD_CHECK(dtype == DType::f32 || dtype == DType::i64, "onnx: values must be f32 or i64, got {}", name(dtype));
  return dtype == DType::f32 ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT64;
}

// A stream that keeps its errors until protobuf is done, since protobuf's destructors write too.
class FileStream final : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileStream(AtomicFile& file) : file_(file) {}
  bool Write(const void* data, int bytes) override try {
    file_.write(data, std::size_t(bytes));
    return true;
  } catch (const FileError&) {
    error_ = std::current_exception();
    return false;
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  AtomicFile& file_;
  std::exception_ptr error_;
};

class ProtobufGraph final : public OnnxFile {
 public:
  explicit ProtobufGraph(const std::string& name) {
    model_.set_ir_version(8);  // of the release that introduced operator set 17
    model_.set_producer_name("foldgrad");
    onnx::OperatorSetIdProto& operators = *model_.add_opset_import();
    operators.set_domain("");
    operators.set_version(17);
    graph_.set_name(name);
  }

  std::string input(const std::string& name, DType dtype, const NamedSizes& sizes) override {
    describe(*graph_.add_input(), name, dtype, sizes);
    return name;
  }

  void output(const std::string& value, const std::string& name, DType dtype, const NamedSizes& sizes) override {
    for (onnx::NodeProto& node : *graph_.mutable_node())
      for (auto* names : {node.mutable_input(), node.mutable_output()})
        for (std::string& used : *names)
          if (used == value) used = name;
    describe(*graph_.add_output(), name, dtype, sizes);
  }

  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes) override {
    std::string name = place_ + "/" + op;
    if (const int others = named_[name]++) name += "_" + std::to_string(others);
    onnx::NodeProto& node = *graph_.add_node();
    node.set_name(name);
    node.set_op_type(op);
    for (const std::string& value : inputs) node.add_input(value);
    node.add_output(name);
    for (const auto& [key, value] : attributes) {
      onnx::AttributeProto& attribute = *node.add_attribute();
      attribute.set_name(key);
      set(attribute, value);
    }
    return name;
  }

  std::string initializer(const std::string& name, const Tensor& value) override {
    if (!initializers_.insert(name).second) return name;
    bytes_ += std::int64_t(value.bytes());
    FOLDGRAD_CHECK(bytes_ <= kMostWeights, "onnx: {} must have at most {} bytes of weights, got {} with {}",
                   graph_.name(), kMostWeights, bytes_, name);
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type_of(value.dtype()));
    for (std::int64_t size : value.shape().sizes()) tensor.add_dims(size);
    tensor.set_raw_data(value.raw(), value.bytes());
    return name;
  }

  void metadata(const std::string& key, const std::string& value) override {
    onnx::StringStringEntryProto& entry = *model_.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }

  void write(AtomicFile& file) const override {
    FileStream stream(file);
    google::protobuf::io::CopyingOutputStreamAdaptor buffered(&stream);
    const bool written = model_.SerializeToZeroCopyStream(&buffered) && buffered.Flush();
    stream.rethrow();
    if (!written) throw std::runtime_error("onnx: protobuf cannot write " + graph_.name());
  }

 private:
  static void describe(onnx::ValueInfoProto& value, const std::string& name, DType dtype, const NamedSizes& sizes) {
    value.set_name(name);
    onnx::TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(type_of(dtype));
    onnx::TensorShapeProto& shape = *type.mutable_shape();
    for (const auto& size : sizes)
      if (const auto* number = std::get_if<std::int64_t>(&size))
        shape.add_dim()->set_dim_value(*number);
      else
        shape.add_dim()->set_dim_param(std::get<std::string>(size));
  }

  static void set(onnx::AttributeProto& attribute, const Attribute::second_type& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(*integer);
    } else if (const auto* number = std::get_if<double>(&value)) {
      attribute.set_type(onnx::AttributeProto::FLOAT);
      attribute.set_f(float(*number));
    } else {
      attribute.set_type(onnx::AttributeProto::INTS);
      for (std::int64_t i : std::get<Sizes>(value)) attribute.add_ints(i);
    }
  }

  onnx::ModelProto model_;
  onnx::GraphProto& graph_ = *model_.mutable_graph();
  std::map<std::string, int> named_;  // number of uses of each name
  std::set<std::string> initializers_;
  std::int64_t bytes_ = 0;  // of the tensors
};

}  // namespace

bool onnx_available() { return true; }

std::unique_ptr<OnnxFile> OnnxFile::make(const std::string& name) { return std::make_unique<ProtobufGraph>(name); }

}  // namespace foldgrad
