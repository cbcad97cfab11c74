// Any bytes as a table of a data directory, plain and as gzip. What is accepted keeps the promises
// of Table, what is refused gets one printable line, and how the bytes arrive makes no difference.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "data/csv.h"
#include "data/table_reader.h"
#include "fuzz/require.h"
#include "lucid/data/dataset.h"
#include "lucid/data/schema.h"

namespace {

using lucid::Result;
using Records = std::vector<std::vector<std::string>>;

constexpr lucid::CsvLimits kLimits = {
    .file_bytes = 1u << 20, .record_bytes = 1u << 12, .cell_bytes = 1u << 10};

// One byte at a time: the worst way to be given a file.
class Trickle final : public lucid::ByteSource {
 public:
  explicit Trickle(std::string_view text) : inner_(lucid::MemorySource(text)) {}
  Result<std::size_t> Read(std::span<char> out) override { return inner_->Read(out.first(1)); }

 private:
  std::unique_ptr<lucid::ByteSource> inner_;
};

const lucid::Schema& FuzzSchema() {
  static const lucid::Schema schema = lucid::Schema::Parse(
                                          "column,kind,offset,divisor,categories\n"
                                          "n,numeric,1,3,\n"
                                          "b,binary,,,x|y\n"
                                          "q,quarter-circle,,,a|b|c\n"
                                          "c,categorical,,,u|v|?\n"
                                          "l,label,,,p|q|r\n",
                                          "schema")
                                          .value();
  return schema;
}

Result<Records> ReadRecords(std::unique_ptr<lucid::ByteSource> source) {
  lucid::CsvReader csv(std::move(source), "f.csv", kLimits);
  Records records;
  while (true) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) return records;
    records.emplace_back(csv.cells().begin(), csv.cells().end());
  }
}

void CheckRecords(std::string_view text) {
  const Result<Records> records = ReadRecords(lucid::MemorySource(text));
  const Result<Records> slow = ReadRecords(std::make_unique<Trickle>(text));
  Require(records.ok() == slow.ok());
  if (!records.ok()) {
    // Beyond a size limit the two may notice at different places; elsewhere they agree.
    RequireOneLine(records.error().message);
    if (text.size() < kLimits.cell_bytes) Require(records.error().message == slow.error().message);
    return;
  }
  Require(*records == *slow);
  std::string written;
  for (const auto& record : *records) {
    const std::vector<std::string_view> cells(record.begin(), record.end());
    lucid::AppendCsvRecord(written, cells);
  }
  const Result<Records> again = ReadRecords(lucid::MemorySource(written));
  // Quotes that the writer adds may carry a record or cell over its limit.
  if (written.size() < kLimits.cell_bytes) Require(again.ok() && *again == *records);
}

void CheckTable(std::unique_ptr<lucid::ByteSource> source, bool clip, bool label_required) {
  Result<lucid::TableReader> reader = lucid::TableReader::Open(
      std::move(source), "f.csv", FuzzSchema(), {.clip = clip}, label_required, kLimits);
  if (!reader.ok()) return RequireOneLine(reader.error().message);
  const Result<lucid::Table> table = lucid::ReadTable(std::move(*reader));
  if (!table.ok()) return RequireOneLine(table.error().message);
  Require(table->rows() > 0 && table->features == FuzzSchema().features());
  Require(table->x.size() == static_cast<std::size_t>(table->rows() * table->features));
  const float slack = static_cast<float>(lucid::kEncodingSlack);
  for (const float x : table->x) Require(x >= -slack && x <= 1);
  for (const std::int32_t y : table->y) {
    Require(y >= (label_required ? 0 : -1) && y < FuzzSchema().classes());
  }
  Require(clip || table->clipped == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t flags = data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool clip = (flags & 1) != 0, label_required = (flags & 2) != 0;
  if ((flags & 4) != 0) {
    CheckTable(lucid::GunzipSource(lucid::MemorySource(text)), clip, label_required);
    return 0;
  }
  CheckRecords(text);
  CheckTable(lucid::MemorySource(text), clip, label_required);
  // Most random headers are wrong: once more behind the right one, so that rows are reached.
  const std::string with_header = "n,b,q,c,l\n" + std::string(text);
  CheckTable(lucid::MemorySource(with_header), clip, label_required);
  return 0;
}
