// Any bytes as the body of /predict and of an inference request. What is accepted is whole, finite
// and within the limits, and JSON in nlohmann's eyes, too; what is refused gets one printable line.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "fuzz/require.h"
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  Check(Reader().ReadPredict(body), body);
  Check(Reader().ReadInference(body), body);
  return 0;
}
