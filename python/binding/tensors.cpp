#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include "python/binding/arrays.h"

namespace foldgrad::python {
namespace {

Tensor converted(const Tensor& tensor, const std::string& to) {
  if (to == "cpu" || to == "cuda") {
    const Device device = device_named(to);
    return native([&] { return tensor.to(device); });
  }
  const DType dtype = dtype_named(to);
  return native([&] { return tensor.to(dtype); });
}

nb::object as_array(const Tensor& tensor, nb::handle dtype, nb::handle copy) {
  nb::object array = to_numpy(tensor);
  if (!dtype.is_none()) array = array.attr("astype")(dtype, "copy"_a = false);
  return copy.is(nb::bool_(true)) ? nb::object(array.attr("copy")()) : array;
}

nb::object dlpack(const Tensor& tensor, const nb::kwargs& wanted) {
  if (tensor.device() != Device::cpu) throw nb::value_error("DLPack is for tensors on cpu; use .to(\"cpu\")");
  nb::dlpack::dtype dtype{std::uint8_t(nb::dlpack::dtype_code::Float), std::uint8_t(8 * size_of(tensor.dtype())), 1};
  if (tensor.dtype() == DType::bf16) dtype.code = std::uint8_t(nb::dlpack::dtype_code::Bfloat);
  if (tensor.dtype() == DType::i32 || tensor.dtype() == DType::i64)
    dtype.code = std::uint8_t(nb::dlpack::dtype_code::Int);
  if (tensor.dtype() == DType::u8) dtype.code = std::uint8_t(nb::dlpack::dtype_code::UInt);
  const std::vector<std::size_t> sizes(tensor.shape().begin(), tensor.shape().end());
  auto* owner = new Tensor(tensor);
  const nb::capsule keeper(owner, [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  const nb::ndarray<nb::array_api> array(tensor.raw(), sizes.size(), sizes.data(), keeper, nullptr, dtype);
  return nb::cast(array).attr("__dlpack__")(**wanted);
}

}  // namespace

void add_tensors(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor", doc("engine/tensor.h"))
      .def(
          nb::new_([](nb::handle array, bool copy) {
            const Tensor t = to_tensor(array, copy);
            return copy && nb::isinstance<Tensor>(array) ? native([&] { return t.clone(); }) : t;
          }),
          "array"_a.none(), nb::kw_only(), "copy"_a = true,
          "Takes the values of an array. Copies them unless the array is read-only or `copy` is false; then the tensor "
          "shares the array's memory, which must not change while a tape needs it.")
      .def_prop_ro(
          "shape", [](const Tensor& t) { return to_tuple(t.shape()); }, "The sizes of the axes.",
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return name(t.dtype()); },
          "\"f32\", \"f64\", \"bf16\", \"i32\", "
          "\"i64\" or \"u8\".")
      .def_prop_ro(
          "device", [](const Tensor& t) { return name(t.device()); }, "\"cpu\" or \"cuda\".")
      .def("numpy", to_numpy, nb::sig("def numpy(self) -> typing.Any"),
           "Returns a NumPy array over the tensor's memory. Writing to it changes the tensor, unless that shares the "
           "memory of another array.")
      .def(
          "item", [](const Tensor& t) { return native([&] { return t.item(); }); },
          "Returns the value of a tensor with one element. Throws ValueError for any other tensor.")
      .def("to", converted, "to"_a, "Returns the tensor in another dtype or on another device.")
      .def("__array__", as_array, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", dlpack)
      .def("__dlpack_device__", [](const Tensor&) { return std::pair(int(nb::device::cpu::value), 0); })
      .def("__len__",
           [](const Tensor& t) {
             if (t.shape().rank() == 0) throw nb::type_error("a tensor of rank 0 has no length");
             return t.shape()[0];
           })
      .def("__repr__", [](const Tensor& t) {
        return fmt::format("Tensor({} {} on {})", name(t.dtype()), t.shape(), name(t.device()));
      });
  m.def(
      "from_dlpack",
      [](nb::handle x, std::optional<bool> copy) {
        if (!nb::hasattr(x, "__dlpack__")) throw nb::type_error("from_dlpack needs an object with __dlpack__");
        return to_tensor(x, copy.value_or(false));
      },
      "x"_a.none(), "copy"_a = nb::none(),
      "Returns a tensor that shares the memory of x, or copies it if `copy` is true.");
}

}  // namespace foldgrad::python
