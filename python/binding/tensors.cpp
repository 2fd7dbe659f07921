#include <nanobind/stl/pair.h>

#include "python/binding/arrays.h"

namespace foldgrad::python {
namespace {

Tensor converted(const Tensor& tensor, const std::string& to) {
  return to == "cpu" || to == "cuda" ? tensor.to(device_named(to)) : tensor.to(dtype_named(to));
}

nb::object as_array(const Tensor& tensor, nb::handle dtype, nb::handle copy) {
  nb::object array = to_numpy(tensor);
  if (!dtype.is_none()) array = array.attr("astype")(dtype, "copy"_a = false);
  return copy.is(nb::bool_(true)) ? nb::object(array.attr("copy")()) : array;
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
          "Makes a tensor with the values of an array. The values are copied, unless the array is read-only or `copy` "
          "is false. In those cases the tensor shares the array's memory, which must not change while a tape needs it.")
      .def_prop_ro("shape", &Tensor::shape, "The sizes of the axes.")
      .def_prop_ro("dtype", &Tensor::dtype, "\"f32\", \"f64\", \"bf16\", \"i32\", \"i64\" or \"u8\".")
      .def_prop_ro("device", &Tensor::device, "\"cpu\" or \"cuda\".")
      .def("numpy", to_numpy,
           "Returns a NumPy array that shares the tensor's memory. Writing to the array changes the tensor. The array "
           "is read-only if the tensor itself shares the memory of another array.")
      .def("item", &Tensor::item, Native(),
           "Returns the value of a tensor with one element. Throws ValueError for any other tensor.")
      .def("to", converted, "to"_a, Native(), "Returns the tensor in another dtype or on another device.")
      .def("__array__", as_array, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__",
           [](const Tensor& t, const nb::kwargs& wanted) { return to_dlpack(t).attr("__dlpack__")(**wanted); })
      .def("__dlpack_device__", [](const Tensor&) { return std::pair(1, 0); })  // the CPU
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
