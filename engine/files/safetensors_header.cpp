#include "engine/files/safetensors_header.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "engine/files/file.h"

namespace foldgrad::safetensors {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxAxes = 64;

constexpr struct {
  const char* name;
  DType dtype;
} kTypes[] = {{"F64", DType::f64}, {"F32", DType::f32}, {"BF16", DType::bf16},
              {"I64", DType::i64}, {"I32", DType::i32}, {"U8", DType::u8}};

// Builds the header from the parser's events. A DOM would keep only the last of duplicate keys, and a hostile header
// could nest as deep as it is long; here the third level is the last.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  Header take() { return std::move(header_); }

  bool null() override { refuse("null"); }
  bool boolean(bool value) override { refuse(value ? "true" : "false"); }
  // The parser calls this one for numbers with a minus only, -0 among them.
  bool number_integer(number_integer_t value) override { refuse(fmt::format("-{}", 0 - std::uint64_t(value))); }
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t, const string_t& text) override { refuse(text.substr(0, 40)); }
  bool string(string_t& value) override;
  bool binary(binary_t&) override { refuse("binary data"); }
  bool start_object(std::size_t) override;
  bool key(string_t& key) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override {
    place_ = Place::entry;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override;

 private:
  enum class Place { outside, top, metadata, entry, shape, offsets };
  struct Fields {
    std::optional<DType> dtype;
    std::optional<std::vector<std::int64_t>> sizes, offsets;
  };

  template <class... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    throw FileError(path_, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  std::string subject() const;
  std::string expected() const;
  [[noreturn]] void refuse(const std::string& found) const {
    fail("{} must be {}, got {}", subject(), expected(), found);
  }
  void begin_field(const std::string& key);
  void finish_entry();

  const std::string &path_, &text_;
  Header header_;
  Place place_ = Place::outside;
  std::string name_, field_;  // the latest keys of the first and the second level
  bool metadata_seen_ = false;
  Fields fields_;
};

// The value that comes next, or that holds what comes next.
std::string Builder::subject() const {
  const std::string owner = name_ == kMetadata ? std::string(kMetadata) : "tensor " + quote(name_);
  if (place_ == Place::top) return owner;
  if (place_ == Place::metadata) return owner + " " + quote(field_);
  return owner + ": " + field_;
}

std::string Builder::expected() const {
  switch (place_) {
    case Place::metadata:
      return "a string";
    case Place::entry:
      return field_ == "dtype" ? "a string" : "an array";
    case Place::shape:
    case Place::offsets:
      return "integers from 0 to 2^63 - 1";
    default:
      return "an object";
  }
}

bool Builder::number_unsigned(number_unsigned_t value) {
  const bool is_shape = place_ == Place::shape;
  if ((!is_shape && place_ != Place::offsets) || value > std::uint64_t(INT64_MAX)) refuse(std::to_string(value));
  std::vector<std::int64_t>& values = is_shape ? *fields_.sizes : *fields_.offsets;
  if (values.size() == (is_shape ? kMaxAxes : 2))
    fail("{} must have {}, got more", subject(), is_shape ? "at most 64 axes" : "two entries");
  values.push_back(std::int64_t(value));
  return true;
}

bool Builder::string(string_t& value) {
  if (place_ == Place::metadata) {
    header_.metadata[field_] = std::move(value);
    return true;
  }
  if (place_ != Place::entry || field_ != "dtype") refuse(quote(value));
  for (const auto& type : kTypes)
    if (value == type.name) fields_.dtype = type.dtype;
  if (!fields_.dtype) fail("{} must be F64, F32, BF16, I64, I32 or U8, got {}", subject(), quote(value));
  return true;
}

bool Builder::start_object(std::size_t) {
  if (place_ == Place::outside) {
    place_ = Place::top;
  } else if (place_ == Place::top) {
    place_ = name_ == kMetadata ? Place::metadata : Place::entry;
    fields_ = {};
  } else {
    refuse("an object");
  }
  return true;
}

bool Builder::key(string_t& key) {
  if (place_ == Place::top) {
    if (key.empty()) fail("the name of a tensor must not be empty");
    if (header_.entries.count(key) || (key == kMetadata && metadata_seen_))
      fail("the header must have each key once, got {} twice", quote(key));
    metadata_seen_ |= key == kMetadata;
    name_ = std::move(key);
  } else if (place_ == Place::metadata) {
    if (header_.metadata.count(key)) fail("{} must have each key once, got {} twice", kMetadata, quote(key));
    field_ = std::move(key);
  } else {
    begin_field(key);
  }
  return true;
}

void Builder::begin_field(const std::string& key) {
  const bool twice = (key == "dtype" && fields_.dtype) || (key == "shape" && fields_.sizes) ||
                     (key == "data_offsets" && fields_.offsets);
  if (twice) fail("tensor {} must have each key once, got {} twice", quote(name_), quote(key));
  if (key != "dtype" && key != "shape" && key != "data_offsets")
    fail("tensor {} must have dtype, shape and data_offsets only, got {}", quote(name_), quote(key));
  field_ = key;
}

bool Builder::start_array(std::size_t) {
  if (place_ != Place::entry || field_ == "dtype") refuse("an array");
  place_ = field_ == "shape" ? Place::shape : Place::offsets;
  (place_ == Place::shape ? fields_.sizes : fields_.offsets).emplace();
  return true;
}

bool Builder::end_object() {
  if (place_ == Place::entry) finish_entry();
  place_ = place_ == Place::top ? Place::outside : Place::top;
  return true;
}

void Builder::finish_entry() {
  const auto& [dtype, sizes, offsets] = fields_;
  const std::string tensor = "tensor " + quote(name_);
  if (!dtype || !sizes || !offsets)
    fail("{} must have dtype, shape and data_offsets, got no {}", tensor,
         !dtype   ? "dtype"
         : !sizes ? "shape"
                  : "data_offsets");
  const std::string stored = fmt::format("{} [{}]", format_name(*dtype), fmt::join(*sizes, ", "));
  if (offsets->size() != 2) fail("{}: data_offsets must have two entries, got {}", tensor, offsets->size());
  const std::int64_t begin = (*offsets)[0], end = (*offsets)[1];

  // Sizes of zero are left out: a shape must be countable without them, so that its strides are.
  std::int64_t bytes = std::int64_t(size_of(*dtype));
  bool empty = false, counted = true;
  for (const std::int64_t size : *sizes)
    if (size == 0)
      empty = true;
    else
      counted = counted && !__builtin_mul_overflow(bytes, size, &bytes);
  if (!counted) fail("{}: {} must have fewer than 2^63 bytes", tensor, stored);
  if (empty) bytes = 0;
  if (end - begin != bytes)
    fail("{}: data_offsets must span the {} bytes of {}, got [{}, {}]", tensor, bytes, stored, begin, end);
  header_.entries.emplace(std::move(name_), Entry{*dtype, Shape(*sizes), std::uint64_t(begin), std::uint64_t(end)});
}

bool Builder::parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
  // `position` counts the bytes that the parser has taken, the offending one included.
  const std::size_t at = position == 0 ? 0 : position - 1;
  const std::string found = at < text_.size() ? fmt::format("0x{:02x}", std::uint8_t(text_[at])) : "its end";
  fail("byte {}: the header must be one JSON object in UTF-8, got {}", kLengthBytes + at, found);
}

}  // namespace

Header parse_header(const std::string& path, const std::string& text) {
  // The parser skips a byte order mark and white space before the object, and stops without an error at a zero byte.
  if (text.empty() || text[0] != '{') {
    const std::string found = text.empty() ? "its end" : fmt::format("0x{:02x}", std::uint8_t(text[0]));
    throw FileError(path, fmt::format("byte {}: the header must begin with {{, got {}", kLengthBytes, found));
  }
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    throw FileError(path, fmt::format("byte {}: the header must not have zero bytes", kLengthBytes + zero));
  Builder builder(path, text);
  Json::sax_parse(text, &builder);
  return builder.take();
}

const char* format_name(DType dtype) {
  for (const auto& type : kTypes)
    if (type.dtype == dtype) return type.name;
  return "?";
}

std::string json_string(const std::string& text, const char* what) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    throw std::invalid_argument(fmt::format("safetensors: {} must be UTF-8, got {}", what, quote(text)));
  }
}

std::string quote(const std::string& text) {
  constexpr std::size_t kLongest = 80;
  const std::string shown = Json(text.substr(0, kLongest)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > kLongest ? shown + "..." : shown;
}

}  // namespace foldgrad::safetensors
