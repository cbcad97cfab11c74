// A JSON document as one flat list of values: what a request from a stranger is read into.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lucid/base/result.h"

namespace lucid {

// Immutable, thread-safe. A number keeps its text, so that it can be rounded once to whatever type
// it is meant for.
class JsonTape {
 public:
  enum class Kind : std::uint8_t { kNull, kFalse, kTrue, kNumber, kText, kList, kObject };

 private:
  struct Node {
    Kind kind = Kind::kNull;
    std::uint32_t begin = 0, length = 0;  // in text_
    std::uint32_t next = 0;               // the first node that is not part of this value
    std::uint32_t size = 0;
  };

 public:
  // A value of the document; valid as long as the tape.
  class Value {
   public:
    Kind kind() const { return node().kind; }
    bool IsList() const { return kind() == Kind::kList; }
    bool IsObject() const { return kind() == Kind::kObject; }
    bool IsText() const { return kind() == Kind::kText; }
    bool IsNumber() const { return kind() == Kind::kNumber; }
    // The value of a text is decoded, that of a number is a JSON number; otherwise it is empty.
    std::string_view text() const {
      return std::string_view(tape_->text_).substr(node().begin, node().length);
    }
    // How many values a list has, or members an object.
    std::int64_t size() const { return node().size; }
    // The values of a list in order; of an object key, value, key, value.
    template <typename Visit>  // void(Value), or bool(Value): false stops
    void ForEach(Visit visit) const {
      for (std::uint32_t i = at_ + 1; i < node().next; i = tape_->nodes_[i].next) {
        if constexpr (std::is_same_v<decltype(visit(Value(*tape_, i))), bool>) {
          if (!visit(Value(*tape_, i))) return;
        } else {
          visit(Value(*tape_, i));
        }
      }
    }
    // Member `key` of an object. False: there is none, or this is no object.
    bool Find(std::string_view key, Value& member) const;

   private:
    friend class JsonTape;
    friend class JsonTapeWriter;
    Value(const JsonTape& tape, std::uint32_t at) : tape_(&tape), at_(at) {}
    const Node& node() const { return tape_->nodes_[at_]; }
    const JsonTape* tape_;
    std::uint32_t at_;
  };

  // RFC 8259, all of the text. Refused beyond that: a key that an object has twice (two readers
  // might take different ones), numbers beyond double, more than `depth` lists and objects inside
  // each other, 4 GiB. Errors are one printable line. Memory: at most 12 times the text.
  static Result<JsonTape> Parse(std::string_view text, int depth);

  Value root() const { return {*this, 0}; }

 private:
  friend class JsonTapeWriter;
  std::vector<Node> nodes_;  // in the order of the document; an object's keys stand before values
  std::string text_;
};

}  // namespace lucid
