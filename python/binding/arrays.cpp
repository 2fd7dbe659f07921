#include "python/binding/arrays.h"

#include <nanobind/ndarray.h>

namespace foldgrad::python {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8};
constexpr const char* kNamesInNumpy[] = {"<f4", "<f8", "bfloat16", "<i4", "<i8", "|u1"};

std::string text(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

bool is_instance(nb::handle object, const char* module, const char* type) {
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  if (!PyMapping_HasKeyString(modules.ptr(), module)) return false;  // then no object can be one of its
  return nb::isinstance(object, nb::module_::import_(module).attr(type));
}

DType dtype_of_numpy(const nb::object& array) {
  const nb::object dtype = array.attr("dtype");
  const std::string name = text(dtype.attr("str"));
  if (name == "|b1") return DType::u8;
  if (text(dtype.attr("name")) == kNamesInNumpy[int(DType::bf16)]) return DType::bf16;
  for (const DType known : kDTypes)
    if (name == kNamesInNumpy[int(known)]) return known;
  throw nb::type_error(fmt::format("an array must be float32, float64, int32, int64, uint8 or bool in the machine's "
                                   "byte order, got {}; convert it by x.astype(...)",
                                   text(dtype))
                           .c_str());
}

Shape shape_of(const nb::object& array) {
  return Shape(nb::cast<std::vector<std::int64_t>>(nb::list(array.attr("shape"))));
}

Tensor copied(const Tensor& shared) {
  return native([&] { return shared.clone(); });
}

Tensor of_numpy(nb::object array, bool copy) {
  const DType dtype = dtype_of_numpy(array);
  if (!nb::cast<bool>(array.attr("flags").attr("c_contiguous"))) {
    if (!copy)
      throw nb::value_error("an array with these strides cannot be shared; pass numpy.ascontiguousarray(x), or copy");
    array = array.attr("copy")("C");
    copy = false;  // it is one
  }
  const bool share = !copy || !nb::cast<bool>(array.attr("flags").attr("writeable"));
  const auto address = nb::cast<std::uintptr_t>(array.attr("__array_interface__")["data"][nb::int_(0)]);
  const Shape shape = shape_of(array);
  const Tensor shared =
      Tensor::external(reinterpret_cast<void*>(address), shape, dtype, std::make_shared<KeptObject>(std::move(array)));
  return share ? shared : copied(shared);
}

DType dtype_of_dlpack(const nb::dlpack::dtype& d) {
  for (const DType known : kDTypes) {
    const nb::dlpack::dtype_code code = known == DType::bf16 ? nb::dlpack::dtype_code::Bfloat
                                        : is_floating(known) ? nb::dlpack::dtype_code::Float
                                        : known == DType::u8 ? nb::dlpack::dtype_code::UInt
                                                             : nb::dlpack::dtype_code::Int;
    if (d.lanes == 1 && d.code == std::uint8_t(code) && d.bits == 8 * size_of(known)) return known;
  }
  if (d.lanes == 1 && d.code == std::uint8_t(nb::dlpack::dtype_code::Bool)) return DType::u8;
  throw nb::type_error("a tensor must be float32, float64, bfloat16, int32, int64, uint8 or bool; convert it first");
}

Tensor of_dlpack(nb::handle object, bool copy) {
  if (nb::hasattr(object, "requires_grad") && nb::cast<bool>(object.attr("requires_grad")))
    throw nb::value_error("a tensor that requires a gradient would lose it; use x.detach(), or foldgrad.torch");
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(object, array)) throw nb::type_error("an object with __dlpack__ gave no array");
  if (array.device_type() != nb::device::cpu::value)
    throw nb::value_error("the tensor must be in the host's memory; use x.cpu(), and then .to(\"cuda\")");
  std::vector<std::int64_t> sizes;
  std::int64_t dense = 1;
  bool contiguous = true;
  for (std::size_t i = array.ndim(); i-- > 0; dense *= std::int64_t(array.shape(i))) {
    sizes.insert(sizes.begin(), std::int64_t(array.shape(i)));
    contiguous &= array.shape(i) == 1 || array.stride(i) == dense;
  }
  if (!contiguous) throw nb::value_error("a tensor with these strides cannot be taken; use x.contiguous()");
  const DType dtype = dtype_of_dlpack(array.dtype());
  void* const memory = const_cast<void*>(array.data());
  const Tensor shared =
      Tensor::external(memory, Shape(sizes), dtype, std::make_shared<Kept<nb::ndarray<nb::ro>>>(std::move(array)));
  return copy ? copied(shared) : shared;
}

}  // namespace

Tensor to_tensor(nb::handle array, bool copy) {
  Tensor tensor;
  if (nb::try_cast(array, tensor)) return tensor;
  if (array.is_none()) throw nb::type_error("an array is needed, got None");
  if (is_instance(array, "numpy.ma", "MaskedArray"))
    throw nb::value_error("a masked array would lose its mask; fill it first: x.filled(0)");
  if (nb::hasattr(array, "nnz") && nb::hasattr(array, "toarray"))
    throw nb::type_error("sparse matrices are not supported; use x.toarray()");
  const nb::module_ numpy = nb::module_::import_("numpy");
  const bool of_numpy_itself = nb::isinstance(array, numpy.attr("ndarray"));
  if (!of_numpy_itself && nb::hasattr(array, "__dlpack__")) return of_dlpack(array, copy);
  return of_numpy(of_numpy_itself ? nb::borrow(array) : nb::object(numpy.attr("asarray")(array)),
                  copy && of_numpy_itself);
}

NamedTensors to_tensors(const nb::dict& arrays) {
  NamedTensors tensors;
  for (const auto& [name, array] : arrays) tensors[nb::cast<std::string>(name)] = to_tensor(array);
  return tensors;
}

nb::object to_numpy(const Tensor& tensor) {
  if (tensor.device() != Device::cpu) throw nb::value_error("a tensor on cuda has no array; use .to(\"cpu\").numpy()");
  const bool bf16 = tensor.dtype() == DType::bf16;
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object as = nb::str(bf16 ? "<u2" : kNamesInNumpy[int(tensor.dtype())]);
  if (tensor.size() == 0 || !tensor.raw()) as = numpy.attr("empty")(to_tuple(tensor.shape()), as);
  // The memory as an array of bytes, whose base keeps the tensor.
  else {
    auto* owner = new Tensor(tensor);
    const nb::capsule keeper(owner, [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
    using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;
    const nb::object bytes =
        nb::cast(Bytes(static_cast<std::uint8_t*>(tensor.raw()), {tensor.bytes()}, keeper), nb::rv_policy::reference);
    as = bytes.attr("view")(as).attr("reshape")(to_tuple(tensor.shape()));
    if (tensor.is_external()) as.attr("setflags")("write"_a = false);
  }
  if (!bf16) return as;
  try {
    return as.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
  } catch (nb::python_error&) {
    throw nb::type_error("NumPy has no bf16; use .to(\"f32\").numpy(), or install ml_dtypes");
  }
}

nb::dict to_dict(const NamedTensors& tensors) {
  nb::dict dict;
  for (const auto& [name, tensor] : tensors) dict[nb::str(name.c_str())] = nb::cast(tensor);
  return dict;
}

nb::tuple to_tuple(const Shape& shape) {
  nb::list sizes;
  for (const std::int64_t size : shape) sizes.append(size);
  return nb::tuple(sizes);
}

DType dtype_named(const std::string& name) {
  for (const DType known : kDTypes)
    if (name == foldgrad::name(known)) return known;
  throw nb::value_error(fmt::format("dtype must be f32, f64, bf16, i32, i64 or u8, got \"{}\"", name).c_str());
}

Device device_named(const std::string& name) {
  if (name == "cpu") return Device::cpu;
  if (name != "cuda") throw nb::value_error(fmt::format("device must be cpu or cuda, got \"{}\"", name).c_str());
  if (!cuda_available()) throw std::runtime_error("cuda: " + cuda_description());
  return Device::cuda;
}

}  // namespace foldgrad::python
