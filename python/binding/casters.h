// Makes nanobind convert the engine's types: enumerations to and from names, shapes to tuples, named tensors to dicts.
#pragma once
#include <nanobind/stl/map.h>

#include "engine/named_tensors.h"
#include "ops/activation/activation_math.h"
#include "python/binding/native.h"

namespace foldgrad::python {

// Throw std::invalid_argument if there is no such name; the message lists all names. device_named("cuda") throws
// std::runtime_error if CUDA is not available.
DType dtype_named(const std::string& name);
Device device_named(const std::string& name);
Activation activation_named(const std::string& name);

}  // namespace foldgrad::python

namespace nanobind::detail {

// The conversion operator looks up the name, because the lookup can throw but from_python() must not.
template <class Choice, Choice (*named)(const std::string&)>
struct choice_caster {
  static constexpr auto Name = const_name("str");
  template <class>
  using Cast = Choice;
  make_caster<std::string> text;

  bool from_python(handle given, std::uint32_t flags, cleanup_list* cleanup) noexcept {
    return text.from_python(given, flags, cleanup);
  }
  static handle from_cpp(Choice choice, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_FromString(foldgrad::name(choice));
  }
  template <class>
  bool can_cast() const noexcept {
    return true;
  }
  operator Choice() const { return named(text.value); }
};

template <>
struct type_caster<foldgrad::DType> : choice_caster<foldgrad::DType, foldgrad::python::dtype_named> {};
template <>
struct type_caster<foldgrad::Device> : choice_caster<foldgrad::Device, foldgrad::python::device_named> {};
template <>
struct type_caster<foldgrad::Activation> : choice_caster<foldgrad::Activation, foldgrad::python::activation_named> {};

template <>
struct type_caster<foldgrad::Shape> {
  static constexpr auto Name = const_name("tuple[int, ...]");
  static handle from_cpp(const foldgrad::Shape& shape, rv_policy, cleanup_list*) noexcept {
    return nanobind::tuple(nanobind::cast(shape.sizes())).release();
  }
};

}  // namespace nanobind::detail
