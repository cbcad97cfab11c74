// Any bytes as the body of /predict and of an inference request. What is accepted is whole, finite
// and within the limits, and JSON in nlohmann's eyes, too; what is refused gets one printable line.
// "#N" and a newline in front: the first N bytes of the rest are JSON, and binary tensors follow.
// "~G" or "~D" in front: the rest is decompressed (gzip, deflate), which never gives too much.
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "serve/compression.h"
#include "serve/label_request.h"

namespace {

constexpr lucid::LabelRequestLimits kLimits{.rows = 4, .json_depth = 8};

const lucid::LabelRequestReader& Reader() {
  static const lucid::LabelRequestReader reader(
      lucid::Schema::Parse("column,kind,offset,divisor,categories\n"
                           "age,numeric,0,100,\n"
                           "sex,binary,,,0|1\n"
                           "size,quarter-circle,,,small|large\n"
                           "town,categorical,,,x|y|z\n"
                           "label,label,,,no|yes\n",
                           "schema.csv")
          .value(),
      kLimits);
  return reader;
}

void Check(const lucid::Result<lucid::LabelRequest>& request, std::string_view body) {
  if (!request.ok()) return RequireOneLine(request.error().message);
  Require(nlohmann::json::accept(body));
  Require(request->rows >= 1 && request->rows <= kLimits.rows);
  Require(request->values.size() == static_cast<std::size_t>(request->rows) * 7);
  for (const float value : request->values) Require(std::isfinite(value));
}

void CheckBinary(std::string_view body) {
  std::size_t json_length = 0;
  const char* const end = body.data() + body.size();
  const auto [stop, code] = std::from_chars(body.data() + 1, end, json_length);
  if (code != std::errc() || stop == end || *stop != '\n') return;
  body.remove_prefix(static_cast<std::size_t>(stop - body.data()) + 1);
  Check(Reader().ReadInference(body, json_length), body.substr(0, json_length));
}

void CheckCompressed(std::string_view body, lucid::Compression compression) {
  constexpr std::size_t kLimit = 4096;
  std::string plain;
  const auto verdict = lucid::Decompress(body, compression, kLimit, plain);
  Require(plain.size() <= kLimit);
  if (verdict != lucid::Decompression::kDone) return;
  Check(Reader().ReadPredict(plain), plain);
  Check(Reader().ReadInference(plain), plain);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  if (body.starts_with('#')) CheckBinary(body);
  if (body.starts_with("~G")) CheckCompressed(body.substr(2), lucid::Compression::kGzip);
  if (body.starts_with("~D")) CheckCompressed(body.substr(2), lucid::Compression::kDeflate);
  Check(Reader().ReadPredict(body), body);
  Check(Reader().ReadInference(body), body);
  return 0;
}
