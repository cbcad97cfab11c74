// Typed fields of a JSON document. Only for modules that link nlohmann_json.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "lucid/base/digest.h"
#include "lucid/base/result.h"

namespace lucid {

// JSON has no infinities and no NaN: null.
inline nlohmann::ordered_json NumberOrNull(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

// Remembers the first thing that is wrong, so that a reader lists its fields without a check after
// each and asks for status() before it uses any. A path is a JSON pointer: "/hashes/train".
class JsonFields {
 public:
  using Json = nlohmann::ordered_json;

  // `kind`: what the document should have been ("manifest"), for the message. Keeps a reference.
  JsonFields(const Json& json, std::string source, std::string kind)
      : json_(json), source_(std::move(source)), kind_(std::move(kind)) {}

  // The document itself. Errors: no JSON object.
  static Result<Json> Parse(std::string_view text, const std::string& source,
                            const std::string& kind) {
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) return json;
    return InvalidInput(
        fmt::format("{}: not a JSON document: damaged, or not a LUCID {}", source, kind));
  }

  // A text that `named` knows (MethodNamed, AttackNamed).
  template <typename T>
  T Named(const std::string& path, Result<T> (*named)(std::string_view)) {
    const Result<T> value = named(Text(path));
    return value.ok() ? *value : Wrong<T>(path, "a name that LUCID knows");
  }
  std::string Text(const std::string& path) {
    const Json* field = At(path);
    if (field != nullptr && field->is_string()) return field->get<std::string>();
    return Wrong<std::string>(path, "a text");
  }
  std::int64_t Whole(const std::string& path) {
    const Json* field = At(path);
    // A number beyond int64 is stored unsigned; get would wrap it around.
    const bool fits = field != nullptr && field->is_number_integer() &&
                      (!field->is_number_unsigned() ||
                       field->get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    return fits ? field->get<std::int64_t>() : Wrong<std::int64_t>(path, "a whole number");
  }
  bool Flag(const std::string& path) {
    const Json* field = At(path);
    if (field != nullptr && field->is_boolean()) return field->get<bool>();
    return Wrong<bool>(path, "true or false");
  }
  // null is NaN.
  double Number(const std::string& path) {
    const Json* field = At(path);
    if (field != nullptr && field->is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (field != nullptr && field->is_number()) return field->get<double>();
    return Wrong<double>(path, "a number");
  }
  Digest Sha256(const std::string& path) {
    const Result<Digest> digest = Digest::FromHex(Text(path));
    return digest.ok() ? *digest : Wrong<Digest>(path, "a SHA-256 digest");
  }
  std::vector<std::string> Texts(const std::string& path) {
    std::vector<std::string> texts;
    for (const Json& item : List(path)) {
      if (!item.is_string()) return Wrong<std::vector<std::string>>(path, "a list of texts");
      texts.push_back(item.get<std::string>());
    }
    return texts;
  }
  const Json& List(const std::string& path) { return Container(path, &Json::is_array, "a list"); }
  const Json& Object(const std::string& path) {
    return Container(path, &Json::is_object, "an object");
  }
  bool Has(const std::string& path) const { return At(path) != nullptr; }
  bool IsNull(const std::string& path) const {
    const Json* field = At(path);
    return field != nullptr && field->is_null();
  }

  // Errors: the document has no "format", or another one than `known`.
  Status CheckFormat(std::string_view known) {
    const std::string format = Text("/format");
    if (!problem_.empty() || format == known) return status();
    return InvalidInput(
        fmt::format("{}: format {}, this version reads {}", source_, Quoted(format), known));
  }

  // Says that the field at `path` is not what it must be. Returns T{}.
  template <typename T = bool>
  T Wrong(const std::string& path, std::string_view expected) {
    if (problem_.empty()) {
      problem_ = fmt::format("{}: '{}' must be {}: damaged, or not a LUCID {}", source_,
                             path.substr(1), expected, kind_);
    }
    return {};
  }
  Status status() const { return problem_.empty() ? Ok() : Status(InvalidInput(problem_)); }

 private:
  const Json* At(const std::string& path) const {
    const Json::json_pointer pointer(path);
    return json_.contains(pointer) ? &json_.at(pointer) : nullptr;
  }
  const Json& Container(const std::string& path, bool (Json::*is)() const noexcept,
                        std::string_view expected) {
    static const Json kNothing = Json::array();
    const Json* field = At(path);
    if (field != nullptr && (field->*is)()) return *field;
    Wrong(path, expected);
    return kNothing;
  }

  const Json& json_;
  std::string source_, kind_;
  std::string problem_;
};

}  // namespace lucid
