// Any bytes as a schema.csv. What is accepted can be written and read back, and encodes its own
// categories into [0,1]; what is refused gets one printable line.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "lucid/data/dataset.h"
#include "lucid/data/encoder.h"
#include "lucid/data/schema.h"

namespace {

void CheckShape(const lucid::Schema& schema) {
  Require(schema.classes() >= 2 && schema.features() >= 1);
  Require(schema.feature_names().size() == static_cast<std::size_t>(schema.features()));
  std::int64_t width = 0, labels = 0;
  for (const lucid::Column& column : schema.columns()) {
    width += column.width();
    labels += column.kind == lucid::ColumnKind::kLabel;
  }
  Require(width == schema.features() && labels == 1);
}

// A row of first categories, and of a number that may or may not be in range.
void CheckEncoding(const lucid::Schema& schema) {
  std::vector<std::string_view> cells;
  for (const lucid::Column& column : schema.columns()) {
    if (!column.is_feature()) continue;
    cells.push_back(column.categories.empty() ? "0.5" : std::string_view(column.categories.back()));
  }
  std::vector<float> out(static_cast<std::size_t>(schema.features()));
  for (const bool clip : {false, true}) {
    const auto encoded = lucid::Encoder(schema, clip).EncodeRow(cells, out);
    Require(encoded.ok() || !clip);
    if (!encoded.ok()) {
      RequireOneLine(encoded.error().message);
      continue;
    }
    const float slack = static_cast<float>(lucid::kEncodingSlack);
    for (const float x : out) Require(x >= -slack && x <= 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string& whole :
       {std::string(text), "column,kind,offset,divisor,categories\n" + std::string(text)}) {
    const auto schema = lucid::Schema::Parse(whole, "schema.csv");
    if (!schema.ok()) {
      RequireOneLine(schema.error().message);
      continue;
    }
    CheckShape(*schema);
    const std::string canonical = schema->Canonical();
    const auto again = lucid::Schema::Parse(canonical, "canonical");
    Require(again.ok() && *again == *schema && again->Canonical() == canonical);
    CheckEncoding(*schema);
  }
  return 0;
}
