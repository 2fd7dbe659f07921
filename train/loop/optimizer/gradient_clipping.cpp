#include "train/loop/optimizer/gradient_clipping.h"

#include "train/loop/optimizer/optimizer_kernels.h"

namespace foldgrad {
namespace {

void check_gradients(const char* op, const std::vector<Parameter*>& parameters) {
  FOLDGRAD_CHECK(!parameters.empty(), "{}: there are no parameters", op);
  const Tensor& first = parameters[0]->value;
  FOLDGRAD_CHECK(first.defined() && (first.dtype() == DType::f32 || first.dtype() == DType::f64),
                 "{}: {} must be f32 or f64, got {}", op, parameters[0]->name, describe(first));
  for (const Parameter* p : parameters) {
    check_operand(op, p->name.c_str(), p->value, p->value.shape(), first, parameters[0]->name.c_str());
    FOLDGRAD_CHECK(p->has_grad, "{}: {} has no gradient", op, p->name);
    check_operand(op, "the gradient", p->grad, p->value.shape(), p->value, p->name.c_str());
  }
}

}  // namespace

GradientClip clip_by_norm(const std::vector<Parameter*>& parameters, double max_norm) {
  check_gradients("clip_by_norm", parameters);
  FOLDGRAD_CHECK(max_norm > 0, "clip_by_norm: max_norm must be positive, got {}", max_norm);
  const Device device = parameters[0]->value.device();
  const GradientClip clip{Tensor::empty({}, DType::f64, device), Tensor::empty({}, DType::f64, device)};
  dispatch_parameters(parameters[0]->value.dtype(), [&]<class T>(T) {
    std::int64_t pieces = 0;
    std::vector<NormTensor<T>> tensors;
    for (const Parameter* p : parameters)
      pieces += tensors.emplace_back(NormTensor<T>{p->grad.data<T>(), p->grad.size()}).pieces();
    const Tensor squares = Tensor::empty({pieces}, DType::f64, device);
    const ClipScalars scalars{squares.data<double>(), squares.size(), clip.norm.data<double>(),
                              clip.factor.data<double>(), max_norm};
    FOLDGRAD_RUN(device, clip_by_norm, tensors, scalars);
  });
  return clip;
}

void clip_adaptively(const std::vector<Parameter*>& parameters, double clipping) {
  check_gradients("clip_adaptively", parameters);
  FOLDGRAD_CHECK(clipping > 0, "clip_adaptively: clipping must be positive, got {}", clipping);
  dispatch_parameters(parameters[0]->value.dtype(), [&]<class T>(T) {
    std::vector<AgcTensor<T>> tensors;
    for (const Parameter* p : parameters) {
      const Shape& shape = p->value.shape();
      const bool units = shape.rank() >= 2;
      tensors.push_back(
          {p->value.data<T>(), p->grad.data<T>(), units ? shape[0] : 1, units ? shape.stride(0) : shape.elements()});
    }
    FOLDGRAD_RUN(parameters[0]->value.device(), clip_adaptively, tensors, clipping);
  });
}

}  // namespace foldgrad
