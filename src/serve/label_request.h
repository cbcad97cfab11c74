// The bodies of requests for labels: bytes from a stranger to rows of a network's features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/data/encoder.h"
#include "serve/json_tape.h"

namespace lucid {

// Encoded rows, one after another; every value is finite, none is canonical yet.
struct LabelRequest {
  std::string id;         // of the Open Inference Protocol, to be echoed; empty: none
  std::int64_t rows = 0;  // at least 1
  std::vector<float> values;
  bool binary_output = false;  // labels are asked for as bytes instead of JSON
};

struct LabelRequestLimits {
  std::int64_t rows = 1024;
  int json_depth = 8;
};

// Rows are counted from 0, as JSON lists are. Errors say which row and column is wrong, in one
// printable line that holds nothing about the model but its schema. Immutable, thread-safe.
class LabelRequestReader {
 public:
  LabelRequestReader(const Schema& schema, const LabelRequestLimits& limits);

  // An inference request of the Open Inference Protocol v2. The inputs are one tensor "input",
  // [rows, features] of FP16, FP32 or FP64, its data flat or nested; or one tensor for each column
  // of the schema, [rows] or [rows, 1]: BYTES or a whole-number type for columns with categories,
  // BYTES or a number type for numeric ones. (A schema that has a column called "input" takes
  // columns only.) The only output is "label". Unknown fields and parameters are ignored.
  //
  // With the binary tensor data extension the first `json_length` bytes are JSON. Behind them stand
  // the data of the tensors that have a "binary_data_size", in their order: numbers in little
  // endian, texts each behind its length in 4 bytes. FP16 exists there only.
  Result<LabelRequest> ReadInference(std::string_view body,
                                     std::optional<std::size_t> json_length = {}) const;

  // {"rows": [ROW, ...]} or {"input": [ROW, ...]} and nothing else; a ROW of "rows" is an object of
  // raw columns by name or a list of features, one of "input" a list of features.
  Result<LabelRequest> ReadPredict(std::string_view body) const;

  const Schema& schema() const { return encoder_.schema(); }

 private:
  using Value = JsonTape::Value;
  struct Tensor;
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  Status CheckRows(std::int64_t rows) const;
  Result<Tensor> ReadTensor(const Value& input, std::string_view& binary) const;
  Status ReadEncodedTensor(const Tensor& tensor, LabelRequest& request) const;
  Status ReadEncodedJson(const Value& data, LabelRequest& request) const;
  Status ReadColumnTensors(const std::vector<Tensor>& tensors, LabelRequest& request) const;
  Status ReadFeatures(const Value& list, std::int64_t row, std::vector<float>& values) const;
  Status ReadColumns(const Value& object, std::int64_t row, std::vector<float>& values) const;
  Status Encode(std::int64_t row, std::vector<float>& values,
                const std::vector<std::string_view>& cells) const;

  Encoder encoder_;
  LabelRequestLimits limits_;
  std::vector<const Column*> columns_;  // the features, in the order of the schema
  std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>> position_;  // by name
};

}  // namespace lucid
