// A section of a configuration whose keys come from a family's models or from a task.
#pragma once
#include <any>
#include <array>
#include <functional>
#include <variant>

#include "models/blocks/config.h"
#include "models/options/key.h"

namespace foldgrad {

// The member that a key sets. An enumeration appears as a string, one of the key's choices.
using Member =
    std::variant<std::int64_t*, double*, bool*, std::string*, std::vector<std::int64_t>*, std::vector<std::string>*>;
using KeyVisitor = std::function<void(Member, const ConfigKey&)>;

// Calls visitor(Member, ConfigKey) for the keys of a struct with visit_keys(), except those that the data decide.
template <class Struct>
void visit_members(Struct& section, const KeyVisitor& visitor) {
  visit_keys(section, [&visitor]<class T>(T& member, ConfigKey key) {
    if (key.from_data) return;
    key.set_kind(member);
    if constexpr (std::is_enum_v<T>) {
      std::string text = name(member);
      visitor(&text, key);
      for (const T value : values_of(T()))
        if (text == name(value)) member = value;
    } else if constexpr (!std::is_same_v<T, std::array<double, 3>>) {  // these values always come from the data
      visitor(&member, key);
    }
  });
}

// Holds a struct of any type with visit_keys(), == and, optionally, validate().
class Section {
 public:
  template <class Struct>
  static Section of(Struct value) {
    Section section;
    section.value_ = std::move(value);
    section.visit_ = [](std::any& any, const KeyVisitor& v) { visit_members(std::any_cast<Struct&>(any), v); };
    section.equal_ = [](const std::any& a, const std::any& b) {
      const auto* other = std::any_cast<Struct>(&b);
      return other && std::any_cast<const Struct&>(a) == *other;
    };
    section.validate_ = [](const std::any& any) {
      if constexpr (requires(const Struct& s) { s.validate(); }) std::any_cast<const Struct&>(any).validate();
    };
    section.blocks_ = [](std::any& any) -> BlockConfig& {
      if constexpr (std::is_base_of_v<BlockConfig, Struct>) return std::any_cast<Struct&>(any);
      throw std::bad_any_cast();
    };
    return section;
  }

  // as() and blocks() return the struct. They throw std::bad_any_cast if it has another type or, for blocks(), is not a
  // BlockConfig.
  template <class Struct>
  Struct& as() {
    return std::any_cast<Struct&>(value_);
  }
  template <class Struct>
  const Struct& as() const {
    return std::any_cast<const Struct&>(value_);
  }
  BlockConfig& blocks() { return blocks_(value_); }

  void visit(const KeyVisitor& visitor) { visit_(value_, visitor); }
  void validate() const { validate_(value_); }
  bool operator==(const Section& other) const { return equal_(value_, other.value_); }

 private:
  std::any value_;
  void (*visit_)(std::any&, const KeyVisitor&) = nullptr;
  bool (*equal_)(const std::any&, const std::any&) = nullptr;
  void (*validate_)(const std::any&) = nullptr;
  BlockConfig& (*blocks_)(std::any&) = nullptr;
};

}  // namespace foldgrad
