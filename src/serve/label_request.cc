#include "serve/label_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
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

// The tensor types of the protocol that are numbers; `low` and `high` of whole ones.
struct NumberType {
  std::string_view name;
  bool whole = false;
  std::int64_t low = 0;
  std::uint64_t high = 0;
};

template <typename T>
constexpr NumberType Whole(std::string_view name) {
  using Limits = std::numeric_limits<T>;
  return {name, true, static_cast<std::int64_t>(Limits::min()),
          static_cast<std::uint64_t>(Limits::max())};
}

constexpr NumberType kNumberTypes[] = {
    {"FP32"},
    {"FP64"},
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

Error NoBinaryData() {
  return InvalidInput("the binary data extension is not supported: send and ask for JSON data");
}

// Outputs that are asked for: "label", or nothing.
Status CheckOutputs(const Value& root) {
  if (const auto parameters = Find(root, "parameters");
      parameters && IsTrue(*parameters, "binary_data_output")) {
    return NoBinaryData();
  }
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
    } else if (parameters && IsTrue(*parameters, "binary_data")) {
      status = NoBinaryData();
    }
    return status.ok();
  });
  return status;
}

}  // namespace

struct LabelRequestReader::Tensor {
  std::string_view name, type;
  std::vector<std::int64_t> shape;
  Value data;
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
    if (std::isnan(value)) status = InRow(row, "every feature must be a finite float32 number");
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

Result<LabelRequestReader::Tensor> LabelRequestReader::ReadTensor(const Value& input) const {
  const auto name = Find(input, "name"), type = Find(input, "datatype");
  if (!name || !name->IsText()) return InvalidInput("an input must be an object with a 'name'");
  const auto wrong = [&](std::string_view what) {
    return InvalidInput(fmt::format("input {}: {}", Quoted(name->text()), what));
  };
  if (const auto parameters = Find(input, "parameters");
      parameters && Find(*parameters, "binary_data_size")) {
    return NoBinaryData();
  }
  if (!type || !type->IsText()) return wrong("must have a 'datatype'");
  const auto shape = Find(input, "shape"), data = Find(input, "data");
  if (!shape || !shape->IsList() || shape->size() < 1 || shape->size() > 2) {
    return wrong("must have a 'shape', a list of one or two whole numbers");
  }
  if (!data || !data->IsList()) return wrong("must have 'data', a list");
  Tensor tensor{name->text(), type->text(), {}, *data};
  bool good = true;
  shape->ForEach([&](const Value& size) {
    constexpr NumberType kSize = Whole<std::int64_t>("INT64");
    std::int64_t value = 0;
    good = good && size.IsNumber() && !size.text().starts_with('-') && Fits(size.text(), kSize);
    if (good) std::from_chars(size.text().data(), size.text().data() + size.text().size(), value);
    tensor.shape.push_back(value);
  });
  if (!good) return wrong("must have a 'shape', a list of one or two whole numbers");
  return tensor;
}

Status LabelRequestReader::ReadEncodedTensor(const Tensor& tensor, LabelRequest& request) const {
  const std::int64_t features = schema().features();
  if (tensor.type != "FP32" || tensor.shape.size() != 2 || tensor.shape[1] != features) {
    return InvalidInput(
        fmt::format("input '{}' must be FP32 of shape [rows, {}]", kEncodedTensor, features));
  }
  request.rows = tensor.shape[0];
  LUCID_TRY(CheckRows(request.rows));
  const bool nested = IsNested(tensor.data);
  const std::int64_t expected = nested ? request.rows : request.rows * features;
  if (tensor.data.size() != expected) {
    return InvalidInput(fmt::format("input '{}': shape [{}, {}] needs {} {}, not {}",
                                    kEncodedTensor, request.rows, features, expected,
                                    nested ? "lists" : "values", tensor.data.size()));
  }
  request.values.reserve(static_cast<std::size_t>(request.rows * features));
  std::int64_t row = 0;
  Status status = Ok();
  tensor.data.ForEach([&](const Value& item) {
    if (nested) {
      status = ReadFeatures(item, row++, request.values);
      return status.ok();
    }
    const float value =
        item.IsNumber() ? ToFloat(item.text()) : std::numeric_limits<float>::quiet_NaN();
    if (std::isnan(value)) {
      row = static_cast<std::int64_t>(request.values.size()) / features;
      status = InRow(row, "every feature must be a finite float32 number");
    }
    request.values.push_back(value);
    return status.ok();
  });
  return status;
}

namespace {

// The cells of one column. `made` holds those that are not in the document as they are.
Status ReadCells(const Column& column, std::string_view type, const Value& data, bool nested,
                 std::vector<std::string_view>& cells, std::deque<std::string>& made) {
  const NumberType* number = NumberTypeNamed(type);
  const bool numeric = column.kind == ColumnKind::kNumeric;
  if (numeric ? number == nullptr : type != "BYTES" && !(number != nullptr && number->whole)) {
    return InvalidInput(
        fmt::format("input {}: must be {}, not {}", Quoted(column.name),
                    numeric ? "FP32, FP64 or a whole-number type" : "BYTES or a whole-number type",
                    Quoted(type)));
  }
  Status status = Ok();
  const auto refuse = [&](std::string_view what) {
    status = InRow(static_cast<std::int64_t>(cells.size()),
                   fmt::format("column {}: must be {}", Quoted(column.name), what));
    return false;
  };
  const auto read = [&](const Value& item) {
    if (number == nullptr) {
      if (!item.IsText()) return refuse("a text");
    } else if (!item.IsNumber()) {
      return refuse("a number");
    } else if (number->whole && !Fits(item.text(), *number)) {
      return refuse(fmt::format("a whole number of {}", type));
    } else if (type == "FP32") {  // the sender's value is a float, whatever the text says
      const float value = ToFloat(item.text());
      if (std::isnan(value)) return refuse("a finite float32 number");
      cells.push_back(made.emplace_back(fmt::format("{}", static_cast<double>(value))));
      return true;
    }
    cells.push_back(item.text());
    return true;
  };
  data.ForEach([&](const Value& item) {
    if (!nested) return read(item);
    if (!item.IsList() || item.size() != 1) return refuse("a list of one value");
    bool good = true;
    item.ForEach([&](const Value& only) { good = read(only); });
    return good;
  });
  return status;
}

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
    if (!column_shape || tensor.shape[0] != request.rows || tensor.data.size() != request.rows) {
      return InvalidInput(fmt::format("input {}: must have {} values of shape [{}] or [{}, 1]",
                                      Quoted(tensor.name), request.rows, request.rows,
                                      request.rows));
    }
    LUCID_TRY(ReadCells(*columns_[found->second], tensor.type, tensor.data, IsNested(tensor.data),
                        cells[found->second], made));
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

Result<LabelRequest> LabelRequestReader::ReadInference(std::string_view body) const {
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
  LUCID_TRY(CheckOutputs(root));
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
    auto tensor = ReadTensor(input);
    if (tensor.ok())
      tensors.push_back(*std::move(tensor));
    else
      status = tensor.error();
    return status.ok();
  });
  LUCID_TRY(status);
  const bool encoded = tensors.size() == 1 && tensors.front().name == kEncodedTensor &&
                       !position_.contains(kEncodedTensor);
  LUCID_TRY(encoded ? ReadEncodedTensor(tensors.front(), request)
                    : ReadColumnTensors(tensors, request));
  return request;
}

}  // namespace lucid
