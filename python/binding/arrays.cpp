#include "python/binding/arrays.h"

#include <fmt/ranges.h>
#include <nanobind/ndarray.h>

namespace foldgrad::python {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8};
constexpr std::pair<const char*, DType> kNamesInNumpy[] = {{"<f4", DType::f32}, {"<f8", DType::f64},
                                                           {"<i4", DType::i32}, {"<i8", DType::i64},
                                                           {"|u1", DType::u8},  {"|b1", DType::u8}};

// Only looks at modules that are already loaded, since an import takes longer than a small operation.
bool is_instance(nb::handle object, const char* module, const char* type) {
  const nb::object loaded = nb::steal(PyImport_GetModule(nb::str(module).ptr()));  // null unless the module is loaded
  return loaded.is_valid() && nb::isinstance(object, loaded.attr(type));
}

DType dtype_of_numpy(const nb::object& array) {
  const nb::object dtype = array.attr("dtype");
  const auto code = nb::cast<std::string>(dtype.attr("str"));
  for (const auto& [name, known] : kNamesInNumpy)
    if (code == name) return known;
  if (nb::cast<std::string>(dtype.attr("name")) == "bfloat16") return DType::bf16;
  throw nb::type_error(fmt::format("an array must be float32, float64, int32, int64, uint8 or bool in the machine's "
                                   "byte order, got {}; convert it with x.astype(...)",
                                   nb::str(dtype).c_str())
                           .c_str());
}

Tensor copied(const Tensor& shared) {
  return native([&] { return shared.clone(); });
}

Tensor of_numpy(nb::object array, bool copy) {
  const DType dtype = dtype_of_numpy(array);
  const nb::object exporter = dtype == DType::bf16 ? array.attr("view")("<u2") : array;  // NumPy's buffers have no bf16
  Py_buffer buffer;
  if (PyObject_GetBuffer(exporter.ptr(), &buffer, PyBUF_STRIDES) != 0) throw nb::python_error();
  const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> released(&buffer, &PyBuffer_Release);
  if (!PyBuffer_IsContiguous(&buffer, 'C')) {
    FOLDGRAD_CHECK(copy, "only a C-contiguous array can be shared; pass numpy.ascontiguousarray(x), or copy=True");
    return of_numpy(array.attr("copy")("C"), /*copy=*/false);
  }
  const bool share = !copy || buffer.readonly;
  const Shape shape(std::vector<std::int64_t>(buffer.shape, buffer.shape + buffer.ndim));
  const Tensor shared = Tensor::external(buffer.buf, shape, dtype, kept(std::move(array)));
  return share ? shared : copied(shared);
}

nb::dlpack::dtype dlpack_type(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const Code code = dtype == DType::bf16 ? Code::Bfloat
                    : is_floating(dtype) ? Code::Float
                    : dtype == DType::u8 ? Code::UInt
                                         : Code::Int;
  return {std::uint8_t(code), std::uint8_t(8 * size_of(dtype)), 1};
}

DType dtype_of_dlpack(const nb::dlpack::dtype& d) {
  for (const DType known : kDTypes)
    if (d == dlpack_type(known)) return known;
  if (d.lanes == 1 && d.code == std::uint8_t(nb::dlpack::dtype_code::Bool)) return DType::u8;
  throw nb::type_error("a tensor must be float32, float64, bfloat16, int32, int64, uint8 or bool; convert it first");
}

Tensor of_dlpack(nb::handle object, bool copy) {
  FOLDGRAD_CHECK(!nb::hasattr(object, "requires_grad") || !nb::cast<bool>(object.attr("requires_grad")),
                 "the conversion would cut off the tensor's gradient; use x.detach(), or foldgrad.torch");
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(object, array)) throw nb::type_error("__dlpack__() must return an array");
  FOLDGRAD_CHECK(array.device_type() == nb::device::cpu::value,
                 "the tensor must be in the host's memory; use x.cpu(), and then .to(\"cuda\")");
  const Shape shape(std::vector<std::int64_t>(array.shape_ptr(), array.shape_ptr() + array.ndim()));
  for (std::size_t i = 0; i < array.ndim(); ++i)
    FOLDGRAD_CHECK(shape[int(i)] == 1 || array.stride(i) == shape.stride(int(i)),
                   "the tensor must be contiguous; use x.contiguous()");
  const DType dtype = dtype_of_dlpack(array.dtype());
  void* const memory = const_cast<void*>(array.data());
  const Tensor shared = Tensor::external(memory, shape, dtype, kept(std::move(array)));
  return copy ? copied(shared) : shared;
}

// Returns a nanobind array that refers to the tensor's memory and keeps it alive.
template <class Kind>
nb::object exported(const Tensor& tensor, const nb::dlpack::dtype& type) {
  const std::vector<std::size_t> sizes(tensor.shape().begin(), tensor.shape().end());
  auto* owner = new Tensor(tensor);
  const nb::capsule keeper(owner, [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  return nb::cast(nb::ndarray<Kind>(tensor.raw(), sizes.size(), sizes.data(), keeper, nullptr, type));
}

}  // namespace

Tensor to_tensor(nb::handle array, bool copy) {
  Tensor tensor;
  if (nb::try_cast(array, tensor)) return tensor;
  if (array.is_none()) throw nb::type_error("expected an array, got None");
  if (is_instance(array, "numpy", "ndarray")) {
    if (is_instance(array, "numpy.ma", "MaskedArray"))
      throw nb::value_error("a masked array would lose its mask; fill it first: x.filled(0)");
    return of_numpy(nb::borrow(array), copy);
  }
  if (nb::hasattr(array, "nnz") && nb::hasattr(array, "toarray"))
    throw nb::type_error("sparse matrices are not supported; use x.toarray()");
  if (nb::hasattr(array, "__dlpack__")) return of_dlpack(array, copy);
  return of_numpy(nb::module_::import_("numpy").attr("asarray")(array), copy);
}

NamedTensors to_tensors(const Dict& arrays) {
  NamedTensors tensors;
  for (const auto& [name, array] : arrays) tensors[nb::cast<std::string>(name)] = to_tensor(array);
  return tensors;
}

Any to_numpy(const Tensor& tensor) {
  if (tensor.device() != Device::cpu) throw nb::value_error("numpy() needs a tensor on cpu; use .to(\"cpu\").numpy()");
  nb::dlpack::dtype type = dlpack_type(tensor.dtype());
  if (tensor.dtype() == DType::bf16) type.code = std::uint8_t(nb::dlpack::dtype_code::UInt);  // exported as raw bits
  const nb::object array = exported<nb::numpy>(tensor, type);
  if (tensor.is_external()) array.attr("setflags")("write"_a = false);
  if (tensor.dtype() != DType::bf16) return array;
  try {
    return array.attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
  } catch (nb::python_error&) {
    throw nb::type_error("NumPy has no bf16; use .to(\"f32\").numpy(), or install ml_dtypes");
  }
}

nb::object to_dlpack(const Tensor& tensor) {
  if (tensor.device() != Device::cpu) throw nb::value_error("DLPack needs a tensor on cpu; use .to(\"cpu\")");
  return exported<nb::array_api>(tensor, dlpack_type(tensor.dtype()));
}

DType dtype_named(const std::string& name) {
  for (const DType known : kDTypes)
    if (name == foldgrad::name(known)) return known;
  throw std::invalid_argument(fmt::format("dtype must be f32, f64, bf16, i32, i64 or u8, got \"{}\"", name));
}

Activation activation_named(const std::string& name) {
  for (const Activation known : kActivations)
    if (name == foldgrad::name(known)) return known;
  throw std::invalid_argument(
      fmt::format("activation must be one of {}, got \"{}\"", fmt::join(kActivationNames, ", "), name));
}

Device device_named(const std::string& name) {
  if (name == "cpu") return Device::cpu;
  FOLDGRAD_CHECK(name == "cuda", "device must be cpu or cuda, got \"{}\"", name);
  if (!cuda_available()) throw std::runtime_error("cuda: " + cuda_description());
  return Device::cuda;
}

}  // namespace foldgrad::python
