// onnx_check FILE: checks a file with ONNX's own library: the model, and all shapes by strict inference. Prints inputs,
// outputs and the number of nodes of each operator. A separate program: it needs protobuf, and Debian's SentencePiece
// exports the symbols of another release of it.
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <fstream>
#include <iostream>
#include <map>

namespace {

void print(const char* kind, const onnx::ValueInfoProto& value) {
  const onnx::TypeProto::Tensor& type = value.type().tensor_type();
  std::cout << kind << ' ' << value.name() << ' '
            << onnx::TensorProto::DataType_Name(onnx::TensorProto::DataType(type.elem_type())) << " [";
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    const onnx::TensorShapeProto::Dimension& size = type.shape().dim(i);
    std::cout << (i ? ", " : "");
    size.has_dim_value() ? std::cout << size.dim_value() : std::cout << size.dim_param();
  }
  std::cout << "]\n";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: onnx_check FILE\n";
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  onnx::ModelProto model;
  if (!model.ParseFromIstream(&file)) throw std::runtime_error("is no model of ONNX");
  onnx::checker::check_model(model);
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                     {/*check_type=*/true, /*error_mode=*/1, /*data_propagation=*/true});
  for (const auto& input : model.graph().input()) print("input", input);
  for (const auto& output : model.graph().output()) print("output", output);
  std::map<std::string, int> operators;
  for (const auto& node : model.graph().node()) ++operators[node.op_type()];
  for (const auto& [op, count] : operators) std::cout << "operator " << op << ' ' << count << '\n';
} catch (const std::exception& e) {
  std::cerr << argv[1] << ": " << e.what() << '\n';
  return 1;
}
