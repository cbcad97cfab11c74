#include "serve/label_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"

namespace lucid {
namespace {

using Value = JsonTape::Value;

constexpr std::string_view kEncodedTensor = "input";
constexpr std::string_view kLabelTensor = "label";
constexpr std::string_view kTexts = "BYTES";
constexpr std::string_view kNotFinite = "every feature must be a finite float32 number";
constexpr std::size_t kLongestId = 256;

Error InRow(std::int64_t row, std::string_view what) {
  return InvalidInput(fmt::format("row {}: {}", row, what));
}

std::optional<Value> Find(const Value& object, std::string_view key) {
  Value member = object;
  return object.Find(key, member) ? std::optional<Value>(member) : std::nullopt;
}

// What the number says, rounded once. Below the smallest float it is 0; NaN: beyond the largest.
float ToFloat(std::string_view number) {
  float value = 0;
  const char* end = number.data() + number.size();
  if (std::from_chars(number.data(), end, value).ec == std::errc() && std::isfinite(value)) {
    return value;
  }
  double wide = 0;  // and so it stays below the smallest double; JsonTape refuses the largest ones
  std::from_chars(number.data(), end, wide);
  return std::abs(wide) < 1 ? 0 : std::numeric_limits<float>::quiet_NaN();
}

// The value of an IEEE 754 half-precision number.
float HalfToFloat(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = std::numeric_limits<float>::infinity();
  if (exponent == 31 && fraction != 0) size = std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) size = std::ldexp(static_cast<float>(fraction), -24);
  if (exponent > 0 && exponent < 31) {
    size = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -size : size;
}

// A tensor's value out of its little-endian bytes. Requires: sizeof(T) bytes.
template <typename T>
T FromBytes(const char* bytes) {
  static_assert(std::endian::native == std::endian::little);
  T value{};
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// The tensor types of the protocol that are numbers; `low` and `high` of whole ones.
struct NumberType {
  std::string_view name;
  std::size_t bytes = 0;                  // of one value
  double (*real)(const char*) = {};       // its value, of types that are not whole
  std::string (*text)(const char*) = {};  // its decimal text, of whole types
  std::int64_t low = 0;
  std::uint64_t high = 0;

  bool whole() const { return real == nullptr; }
};

template <typename T>
constexpr NumberType Whole(std::string_view name) {
  using Limits = std::numeric_limits<T>;
  return {name,
          sizeof(T),
          nullptr,
          [](const char* bytes) { return std::to_string(FromBytes<T>(bytes)); },
          static_cast<std::int64_t>(Limits::min()),
          static_cast<std::uint64_t>(Limits::max())};
}

constexpr std::string_view kHalf = "FP16";

constexpr NumberType kNumberTypes[] = {
    {kHalf, 2,
     [](const char* bytes) -> double { return HalfToFloat(FromBytes<std::uint16_t>(bytes)); }},
    {"FP32", 4, [](const char* bytes) -> double { return FromBytes<float>(bytes); }},
    {"FP64", 8, [](const char* bytes) { return FromBytes<double>(bytes); }},
    Whole<std::int8_t>("INT8"),
    Whole<std::int16_t>("INT16"),
    Whole<std::int32_t>("INT32"),
    Whole<std::int64_t>("INT64"),
    Whole<std::uint8_t>("UINT8"),
    Whole<std::uint16_t>("UINT16"),
    Whole<std::uint32_t>("UINT32"),
    Whole<std::uint64_t>("UINT64"),
};

const NumberType* NumberTypeNamed(std::string_view name) {
  const auto* found = std::ranges::find(kNumberTypes, name, &NumberType::name);
  return found == std::end(kNumberTypes) ? nullptr : found;
}

bool Fits(std::string_view number, const NumberType& type) {
  const char* end = number.data() + number.size();
  if (number.starts_with('-')) {
    std::int64_t value = 0;
    const auto [stop, code] = std::from_chars(number.data(), end, value);
    return code == std::errc() && stop == end && value >= type.low;
  }
  std::uint64_t value = 0;
  const auto [stop, code] = std::from_chars(number.data(), end, value);
  return code == std::errc() && stop == end && value <= type.high;
}

// A whole number from 0 to 2^63 - 1, or nothing.
std::optional<std::int64_t> WholeNumber(const Value& item) {
  constexpr NumberType kSize = Whole<std::int64_t>("INT64");
  const std::string_view text = item.IsNumber() ? item.text() : std::string_view("-");
  if (text.starts_with('-') || !Fits(text, kSize)) return std::nullopt;
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool IsTrue(const Value& object, std::string_view key) {
  const auto member = Find(object, key);
  return member && member->kind() == JsonTape::Kind::kTrue;
}

// Data of a tensor is flat or nested: the first value says which.
bool IsNested(const Value& list) {
  bool nested = false;
  list.ForEach([&](const Value& first) {
    nested = first.IsList();
    return false;
  });
  return nested;
}

// What Triton's clients may ask of a tensor, and what this server does not have.
Status CheckParameters(const std::optional<Value>& parameters, std::string_view tensor) {
  if (!parameters) return Ok();
  for (const char* unknown : {"shared_memory_region", "classification"}) {
    if (Find(*parameters, unknown)) {
      return InvalidInput(
          fmt::format("{}: the parameter '{}' is not supported", Quoted(tensor), unknown));
    }
  }
  return Ok();
}

// Outputs that are asked for: "label", or nothing, which means the same. Sets whether it is wanted
// as bytes: the output's own parameter counts, and without one that of the request.
Status ReadOutputs(const Value& root, bool& binary) {
  const auto of_request = Find(root, "parameters");
  binary = of_request && IsTrue(*of_request, "binary_data_output");
  const auto outputs = Find(root, "outputs");
  if (!outputs) return Ok();
  if (!outputs->IsList()) return InvalidInput("'outputs' must be a list");
  Status status = Ok();
  outputs->ForEach([&](const Value& output) {
    const auto name = Find(output, "name");
    const auto parameters = Find(output, "parameters");
    if (!name || !name->IsText()) {
      status = InvalidInput("an output must be an object with a 'name'");
    } else if (name->text() != kLabelTensor) {
      status = InvalidInput(fmt::format("there is no output {}: the only one is '{}'",
                                        Quoted(name->text()), kLabelTensor));
    } else {
      status = CheckParameters(parameters, kLabelTensor);
      if (parameters && Find(*parameters, "binary_data")) {
        binary = IsTrue(*parameters, "binary_data");
      }
    }
    return status.ok();
  });
  return status;
}

}  // namespace

struct LabelRequestReader::Tensor {
  std::string_view name, type;
  std::vector<std::int64_t> shape;
  std::optional<Value> data;  // none: the data is in `bytes`
  std::string_view bytes;
};

LabelRequestReader::LabelRequestReader(const Schema& schema, const LabelRequestLimits& limits)
    : encoder_(schema), limits_(limits) {
  for (const Column& column : encoder_.schema().columns()) {
    if (!column.is_feature()) continue;
    position_.emplace(column.name, columns_.size());
    columns_.push_back(&column);
  }
}

Status LabelRequestReader::CheckRows(std::int64_t rows) const {
  if (rows < 1) return InvalidInput("there are no rows");
  if (rows > limits_.rows) {
    return InvalidInput(fmt::format("{} rows, at most {} are allowed", rows, limits_.rows));
  }
  return Ok();
}

Status LabelRequestReader::Encode(std::int64_t row, std::vector<float>& values,
                                  const std::vector<std::string_view>& cells) const {
  const auto features = static_cast<std::size_t>(schema().features());
  values.resize(values.size() + features);
  const auto encoded = encoder_.EncodeRow(cells, std::span(values).last(features));
  return encoded.ok() ? Ok() : Status(InRow(row, encoded.error().message));
}

Status LabelRequestReader::ReadFeatures(const Value& list, std::int64_t row,
                                        std::vector<float>& values) const {
  if (!list.IsList() || list.size() != schema().features()) {
    return InRow(row, fmt::format("must be a list of {} numbers", schema().features()));
  }
  Status status = Ok();
  list.ForEach([&](const Value& item) {
    const float value =
        item.IsNumber() ? ToFloat(item.text()) : std::numeric_limits<float>::quiet_NaN();
    if (std::isnan(value)) status = InRow(row, kNotFinite);
    values.push_back(value);
    return status.ok();
  });
  return status;
}

Status LabelRequestReader::ReadColumns(const Value& object, std::int64_t row,
                                       std::vector<float>& values) const {
  std::vector<std::string_view> cells(columns_.size());
  std::vector<bool> given(columns_.size());
  std::optional<std::size_t> position;  // of the key that was seen last
  Status status = Ok();
  bool is_key = true;
  object.ForEach([&](const Value& item) {
    if (std::exchange(is_key, !is_key)) {
      const auto found = position_.find(item.text());
      if (found == position_.end()) {
        status = InRow(row, fmt::format("there is no column {}", Quoted(item.text())));
        return false;
      }
      position = found->second;
      return true;
    }
    if (!item.IsText() && !item.IsNumber()) {
      status = InRow(row, fmt::format("column {}: must be a text or a number",
                                      Quoted(columns_[*position]->name)));
      return false;
    }
    cells[*position] = item.text();
    given[*position] = true;
    return true;
  });
  LUCID_TRY(status);
  if (const auto missing = std::ranges::find(given, false); missing != given.end()) {
    const Column& column = *columns_[static_cast<std::size_t>(missing - given.begin())];
    return InRow(row, fmt::format("column {} is missing", Quoted(column.name)));
  }
  return Encode(row, values, cells);
}

Result<LabelRequest> LabelRequestReader::ReadPredict(std::string_view body) const {
  LUCID_ASSIGN(const JsonTape tape, JsonTape::Parse(body, limits_.json_depth));
  const Value root = tape.root();
  const auto raw = Find(root, "rows");
  const auto rows = raw ? raw : Find(root, "input");
  if (!rows || root.size() != 1 || !rows->IsList()) {
    return InvalidInput("the body must be {\"rows\": [...]} or {\"input\": [...]}, nothing else");
  }
  LUCID_TRY(CheckRows(rows->size()));
  LabelRequest request;
  Status status = Ok();
  rows->ForEach([&](const Value& row) {
    status = raw && row.IsObject() ? ReadColumns(row, request.rows, request.values)
                                   : ReadFeatures(row, request.rows, request.values);
    ++request.rows;
    return status.ok();
  });
  LUCID_TRY(status);
  return request;
}

Result<LabelRequestReader::Tensor> LabelRequestReader::ReadTensor(const Value& input,
                                                                  std::string_view& binary) const {
  const auto name = Find(input, "name"), type = Find(input, "datatype");
  if (!name || !name->IsText()) return InvalidInput("an input must be an object with a 'name'");
  const auto wrong = [&](std::string_view what) {
    return InvalidInput(fmt::format("input {}: {}", Quoted(name->text()), what));
  };
  if (!type || !type->IsText()) return wrong("must have a 'datatype'");
  const auto shape = Find(input, "shape"), data = Find(input, "data");
  const auto parameters = Find(input, "parameters");
  LUCID_TRY(CheckParameters(parameters, name->text()));
  if (!shape || !shape->IsList() || shape->size() < 1 || shape->size() > 2) {
    return wrong("must have a 'shape', a list of one or two whole numbers");
  }
  Tensor tensor{name->text(), type->text(), {}, data, {}};
  bool good = true;
  shape->ForEach([&](const Value& size) {
    const auto value = WholeNumber(size);
    good = good && value.has_value();
    tensor.shape.push_back(value.value_or(0));
  });
  if (!good) return wrong("must have a 'shape', a list of one or two whole numbers");
  if (const auto size = parameters ? Find(*parameters, "binary_data_size") : std::nullopt) {
    const auto bytes = WholeNumber(*size);
    if (data) return wrong("has 'data' and a 'binary_data_size': send one of them");
    if (!bytes || static_cast<std::uint64_t>(*bytes) > binary.size()) {
      return wrong(
          fmt::format("its 'binary_data_size' is not that of what follows the JSON, "
                      "where {} bytes are left",
                      binary.size()));
    }
    tensor.bytes = binary.substr(0, static_cast<std::size_t>(*bytes));
    binary.remove_prefix(tensor.bytes.size());
    return tensor;
  }
  if (!data || !data->IsList()) return wrong("must have 'data', a list");
  if (tensor.type == kHalf) return wrong("FP16 can be sent as binary data only");
  return tensor;
}

Status LabelRequestReader::ReadEncodedTensor(const Tensor& tensor, LabelRequest& request) const {
  const std::int64_t features = schema().features();
  const NumberType* type = NumberTypeNamed(tensor.type);
  if (type == nullptr || type->whole() || tensor.shape.size() != 2 || tensor.shape[1] != features) {
    return InvalidInput(fmt::format("input '{}' must be FP32, FP64 or FP16 of shape [rows, {}]",
                                    kEncodedTensor, features));
  }
  request.rows = tensor.shape[0];
  LUCID_TRY(CheckRows(request.rows));
  const auto values = static_cast<std::size_t>(request.rows * features);
  request.values.reserve(values);
  if (tensor.data) return ReadEncodedJson(*tensor.data, request);
  if (tensor.bytes.size() != values * type->bytes) {
    return InvalidInput(fmt::format("input '{}': shape [{}, {}] of {} needs {} bytes, not {}",
                                    kEncodedTensor, request.rows, features, tensor.type,
                                    values * type->bytes, tensor.bytes.size()));
  }
  for (std::size_t i = 0; i < values; ++i) {
    const auto value = static_cast<float>(type->real(tensor.bytes.data() + i * type->bytes));
    if (!std::isfinite(value)) {
      return InRow(static_cast<std::int64_t>(i) / features, kNotFinite);
    }
    request.values.push_back(value);
  }
  return Ok();
}

Status LabelRequestReader::ReadEncodedJson(const Value& data, LabelRequest& request) const {
  const std::int64_t features = schema().features();
  const bool nested = IsNested(data);
  const std::int64_t expected = nested ? request.rows : request.rows * features;
  if (data.size() != expected) {
    return InvalidInput(fmt::format("input '{}': shape [{}, {}] needs {} {}, not {}",
                                    kEncodedTensor, request.rows, features, expected,
                                    nested ? "lists" : "values", data.size()));
  }
  std::int64_t row = 0;
  Status status = Ok();
  data.ForEach([&](const Value& item) {
    if (nested) {
      status = ReadFeatures(item, row++, request.values);
      return status.ok();
    }
    const float value =
        item.IsNumber() ? ToFloat(item.text()) : std::numeric_limits<float>::quiet_NaN();
    if (std::isnan(value)) {
      row = static_cast<std::int64_t>(request.values.size()) / features;
      status = InRow(row, kNotFinite);
    }
    request.values.push_back(value);
    return status.ok();
  });
  return status;
}

namespace {

// Reads the cells of one column. Those that are not in the request as they are go to `made`.
class CellReader {
 public:
  CellReader(const Column& column, std::string_view type, std::vector<std::string_view>& cells,
             std::deque<std::string>& made)
      : column_(column), type_(type), number_(NumberTypeNamed(type)), cells_(cells), made_(made) {}

  // Errors: values of this type are not those of this column.
  Status CheckType() const {
    const bool numeric = column_.kind == ColumnKind::kNumeric;
    if (type_ == kTexts || (number_ != nullptr && (numeric || number_->whole()))) return Ok();
    return InvalidInput(fmt::format("input {}: must be BYTES{} or a whole-number type, not {}",
                                    Quoted(column_.name), numeric ? ", FP16, FP32, FP64" : "",
                                    Quoted(type_)));
  }

  Status ReadJson(const Value& data) {
    Status status = Ok();
    const bool nested = IsNested(data);
    data.ForEach([&](const Value& item) {
      if (!nested) {
        status = ReadValue(item);
      } else if (!item.IsList() || item.size() != 1) {
        status = Wrong("a list of one value");
      } else {
        item.ForEach([&](const Value& only) { status = ReadValue(only); });
      }
      return status.ok();
    });
    return status;
  }

  Status ReadBytes(std::string_view bytes, std::int64_t rows) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::size_t head = number_ == nullptr ? sizeof(std::uint32_t) : number_->bytes;
      if (bytes.size() < head) return WrongSize(rows);
      const char* const value = bytes.data();
      bytes.remove_prefix(head);
      if (number_ != nullptr) {
        LUCID_TRY(ReadNumber(value));
        continue;
      }
      const auto length = FromBytes<std::uint32_t>(value);
      if (bytes.size() < length) return WrongSize(rows);
      if (!IsUtf8(bytes.substr(0, length))) return Wrong("a text in UTF-8");
      cells_.push_back(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
    return bytes.empty() ? Ok() : WrongSize(rows);
  }

 private:
  Status ReadValue(const Value& item) {
    if (number_ == nullptr) {
      if (!item.IsText()) return Wrong("a text");
    } else if (!item.IsNumber()) {
      return Wrong("a number");
    } else if (number_->whole() && !Fits(item.text(), *number_)) {
      return Wrong(fmt::format("a whole number of {}", type_));
    } else if (type_ == "FP32") {  // the sender's value is a float, whatever the text says
      return Make(ToFloat(item.text()));
    }
    cells_.push_back(item.text());
    return Ok();
  }

  Status ReadNumber(const char* bytes) {
    if (!number_->whole()) return Make(number_->real(bytes));
    cells_.push_back(made_.emplace_back(number_->text(bytes)));
    return Ok();
  }

  Status Make(double value) {
    if (!std::isfinite(value)) return Wrong(fmt::format("a finite {} number", type_));
    cells_.push_back(made_.emplace_back(fmt::format("{}", value)));
    return Ok();
  }

  Status Wrong(std::string_view what) const {
    return InRow(std::ssize(cells_),
                 fmt::format("column {}: must be {}", Quoted(column_.name), what));
  }
  Status WrongSize(std::int64_t rows) const {
    return InvalidInput(fmt::format("input {}: its binary data is not {} values of {}",
                                    Quoted(column_.name), rows, type_));
  }

  const Column& column_;
  std::string_view type_;
  const NumberType* number_;  // null: texts
  std::vector<std::string_view>& cells_;
  std::deque<std::string>& made_;
};

}  // namespace

Status LabelRequestReader::ReadColumnTensors(const std::vector<Tensor>& tensors,
                                             LabelRequest& request) const {
  std::vector<std::vector<std::string_view>> cells(columns_.size());
  std::deque<std::string> made;
  request.rows = tensors.front().shape[0];
  LUCID_TRY(CheckRows(request.rows));
  for (const Tensor& tensor : tensors) {
    const auto found = position_.find(tensor.name);
    if (found == position_.end()) {
      return InvalidInput(fmt::format("there is no input {}", Quoted(tensor.name)));
    }
    if (!cells[found->second].empty()) {
      return InvalidInput(fmt::format("input {} is there twice", Quoted(tensor.name)));
    }
    const bool column_shape = tensor.shape.size() == 1 || tensor.shape[1] == 1;
    const bool has_all = !tensor.data || tensor.data->size() == request.rows;
    if (!column_shape || tensor.shape[0] != request.rows || !has_all) {
      return InvalidInput(fmt::format("input {}: must have {} values of shape [{}] or [{}, 1]",
                                      Quoted(tensor.name), request.rows, request.rows,
                                      request.rows));
    }
    CellReader reader(*columns_[found->second], tensor.type, cells[found->second], made);
    LUCID_TRY(reader.CheckType());
    LUCID_TRY(tensor.data ? reader.ReadJson(*tensor.data)
                          : reader.ReadBytes(tensor.bytes, request.rows));
  }
  const auto missing = std::ranges::find_if(cells, &std::vector<std::string_view>::empty);
  if (missing != cells.end()) {
    const Column& column = *columns_[static_cast<std::size_t>(missing - cells.begin())];
    return InvalidInput(fmt::format("input {} is missing", Quoted(column.name)));
  }
  std::vector<std::string_view> row(columns_.size());
  for (std::int64_t r = 0; r < request.rows; ++r) {
    for (std::size_t c = 0; c < cells.size(); ++c) row[c] = cells[c][static_cast<std::size_t>(r)];
    LUCID_TRY(Encode(r, request.values, row));
  }
  return Ok();
}

Result<LabelRequest> LabelRequestReader::ReadInference(
    std::string_view body, std::optional<std::size_t> json_length) const {
  if (json_length.value_or(0) > body.size()) {
    return InvalidInput(
        fmt::format("{} bytes of JSON are announced, the body has {}", *json_length, body.size()));
  }
  std::string_view binary = body.substr(json_length.value_or(body.size()));
  body.remove_suffix(binary.size());
  LUCID_ASSIGN(const JsonTape tape, JsonTape::Parse(body, limits_.json_depth));
  const Value root = tape.root();
  if (!root.IsObject()) return InvalidInput("the body must be a JSON object");
  LabelRequest request;
  if (const auto id = Find(root, "id")) {
    if (!id->IsText() || id->text().size() > kLongestId) {
      return InvalidInput(fmt::format("'id' must be a text of at most {} bytes", kLongestId));
    }
    request.id = id->text();
  }
  LUCID_TRY(ReadOutputs(root, request.binary_output));
  const auto inputs = Find(root, "inputs");
  if (!inputs || !inputs->IsList() || inputs->size() == 0) {
    return InvalidInput("'inputs' must be a list of tensors");
  }
  if (inputs->size() > static_cast<std::int64_t>(columns_.size())) {
    return InvalidInput(fmt::format("{} inputs, there are {}", inputs->size(), columns_.size()));
  }
  std::vector<Tensor> tensors;
  Status status = Ok();
  inputs->ForEach([&](const Value& input) {
    auto tensor = ReadTensor(input, binary);
    if (tensor.ok())
      tensors.push_back(*std::move(tensor));
    else
      status = tensor.error();
    return status.ok();
  });
  LUCID_TRY(status);
  if (!binary.empty()) {
    return InvalidInput(fmt::format("{} bytes after the JSON belong to no input", binary.size()));
  }
  const bool encoded = tensors.size() == 1 && tensors.front().name == kEncodedTensor &&
                       !position_.contains(kEncodedTensor);
  LUCID_TRY(encoded ? ReadEncodedTensor(tensors.front(), request)
                    : ReadColumnTensors(tensors, request));
  return request;
}

}  // namespace lucid
