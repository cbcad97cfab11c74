#include "serve/json_tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace lucid {

// Takes nlohmann's events. Every function returns false to stop the parser.
class JsonTapeWriter {
 public:
  JsonTapeWriter(JsonTape& tape, int depth) : tape_(tape), depth_(depth) {}

  bool null() { return Add(Kind::kNull); }
  bool boolean(bool value) { return Add(value ? Kind::kTrue : Kind::kFalse); }
  bool number_integer(std::int64_t value) { return AddNumber(value); }
  bool number_unsigned(std::uint64_t value) { return AddNumber(value); }
  bool number_float(double, const std::string& text) { return Add(Kind::kNumber, text); }
  bool string(std::string& text) { return Add(Kind::kText, text); }
  bool binary(std::vector<std::uint8_t>&) { return Refuse("binary data"); }
  bool key(std::string& text) {
    is_key_ = true;
    return Add(Kind::kText, text);
  }
  bool start_object(std::size_t) { return Open(Kind::kObject); }
  bool start_array(std::size_t) { return Open(Kind::kList); }
  bool end_object() { return HasEachKeyOnce() && Close(); }
  bool end_array() { return Close(); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) {
    if (e.id == kNumberOverflow) return Refuse("a number is too large for a double");
    return Refuse(fmt::format("not valid JSON near byte {}", position));
  }

  const std::string& problem() const { return problem_; }

 private:
  using Kind = JsonTape::Kind;
  static constexpr int kNumberOverflow = 406;  // nlohmann's number for it

  bool Refuse(std::string_view what) {
    if (problem_.empty()) problem_ = what;
    return false;
  }

  template <typename Whole>
  bool AddNumber(Whole value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    return Add(Kind::kNumber, std::string_view(digits, end));
  }

  bool Add(Kind kind, std::string_view text = {}) {
    // A member is its key and its value, and counts once.
    if (!open_.empty() && !is_key_) ++tape_.nodes_[open_.back()].size;
    is_key_ = false;
    const auto at = static_cast<std::uint32_t>(tape_.nodes_.size());
    tape_.nodes_.push_back({kind, static_cast<std::uint32_t>(tape_.text_.size()),
                            static_cast<std::uint32_t>(text.size()), at + 1, 0});
    tape_.text_ += text;
    return true;
  }

  bool Open(Kind kind) {
    if (static_cast<int>(open_.size()) >= depth_) {
      return Refuse(fmt::format("nested deeper than {}", depth_));
    }
    if (!Add(kind)) return false;
    open_.push_back(static_cast<std::uint32_t>(tape_.nodes_.size() - 1));
    return true;
  }

  bool Close() {
    tape_.nodes_[open_.back()].next = static_cast<std::uint32_t>(tape_.nodes_.size());
    open_.pop_back();
    return true;
  }

  bool HasEachKeyOnce() {
    keys_.clear();
    const std::uint32_t object = open_.back();
    const auto end = static_cast<std::uint32_t>(tape_.nodes_.size());
    for (std::uint32_t key = object + 1; key < end; key = tape_.nodes_[key + 1].next) {
      keys_.push_back(JsonTape::Value(tape_, key).text());
    }
    std::ranges::sort(keys_);
    const auto twice = std::ranges::adjacent_find(keys_);
    return twice == keys_.end() || Refuse(fmt::format("the key {} is there twice", Quoted(*twice)));
  }

  JsonTape& tape_;
  int depth_;
  std::vector<std::uint32_t> open_;  // lists and objects that are not finished
  std::vector<std::string_view> keys_;
  bool is_key_ = false;
  std::string problem_;
};

bool JsonTape::Value::Find(std::string_view key, Value& member) const {
  if (!IsObject()) return false;
  for (std::uint32_t i = at_ + 1; i < node().next; i = tape_->nodes_[i + 1].next) {
    if (Value(*tape_, i).text() != key) continue;
    member = Value(*tape_, i + 1);
    return true;
  }
  return false;
}

Result<JsonTape> JsonTape::Parse(std::string_view text, int depth) {
  if (text.size() >= std::numeric_limits<std::uint32_t>::max()) {
    return InvalidInput("the document has 4 GiB or more");
  }
  JsonTape tape;
  tape.text_.reserve(text.size());
  tape.nodes_.reserve(text.size() / 8 + 8);
  JsonTapeWriter writer(tape, depth);
  if (!nlohmann::json::sax_parse(text, &writer)) return InvalidInput(writer.problem());
  return tape;
}

}  // namespace lucid
