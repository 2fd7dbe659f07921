#include "engine/files/json_text.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace foldgrad {
namespace {

template <class Json>
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonWatch& watch) : watch_(watch) {}
  Json take() { return std::move(root_); }

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(typename Json::number_integer_t v) override { return value(v); }
  bool number_unsigned(typename Json::number_unsigned_t v) override { return value(v); }
  bool number_float(typename Json::number_float_t v, const std::string&) override { return value(v); }
  bool string(std::string& v) override { return value(std::move(v)); }
  bool binary(typename Json::binary_t&) override { return false; }  // JSON text has no binary values
  bool start_object(std::size_t) override { return start(Event::object_start, Json::object()); }
  bool start_array(std::size_t) override { return start(Event::array_start, Json::array()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(std::string& name) override {
    watch_(open_.size(), Event::key, name);
    if (!is_new(name)) throw JsonError{JsonError::duplicate_key, 0, name, open_.size()};
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& e) override {
    constexpr int kOutOfRange = 406;  // the library's error number for a float above 1.8e308
    throw JsonError{e.id == kOutOfRange ? JsonError::too_large_number : JsonError::syntax, byte, "", open_.size()};
  }

 private:
  using Event = nlohmann::json::parse_event_t;
  using Object = typename Json::object_t;
  static constexpr bool kOrdered = requires(Object o) { o.emplace_back("", nullptr); };

  struct Open {
    Json* value;
    std::set<std::string> keys{};  // used only for an ordered object with more than a few keys
  };

  bool value(Json v) {
    watch_(open_.size(), Event::value, none_);
    put(std::move(v));
    return true;
  }
  bool start(Event event, Json empty) {
    watch_(open_.size(), event, none_);
    open_.push_back({put(std::move(empty))});
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }

  // Stores a value. Returns its address, valid while the value is open, since only the innermost open value grows.
  Json* put(Json v) {
    if (open_.empty()) return &(root_ = std::move(v));
    Json& parent = *open_.back().value;
    if (parent.is_array()) return &parent.template get_ref<typename Json::array_t&>().emplace_back(std::move(v));
    auto& object = parent.template get_ref<Object&>();
    if constexpr (kOrdered)
      return &object.emplace_back(std::move(key_), std::move(v)).second;
    else
      return &object.emplace(std::move(key_), std::move(v)).first->second;
  }
  bool is_new(const std::string& name) {
    constexpr std::size_t kFew = 16;
    const auto& object = open_.back().value->template get_ref<const Object&>();
    if constexpr (!kOrdered) return !object.contains(name);
    if (object.size() < kFew) return std::ranges::none_of(object, [&](const auto& m) { return m.first == name; });
    std::set<std::string>& keys = open_.back().keys;
    if (keys.empty())
      for (const auto& member : object) keys.insert(member.first);
    return keys.insert(name).second;
  }

  const JsonWatch& watch_;
  const std::string none_;
  Json root_;
  std::vector<Open> open_;
  std::string key_;  // key of the member whose value comes next
};

}  // namespace

template <class Json>
Json parse_json(std::string_view text, const JsonWatch& watch) {
  Builder<Json> builder(watch);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

template nlohmann::json parse_json(std::string_view, const JsonWatch&);
template nlohmann::ordered_json parse_json(std::string_view, const JsonWatch&);

}  // namespace foldgrad
