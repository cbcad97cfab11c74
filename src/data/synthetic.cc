#include "lucid/data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "data/staged_folder.h"
#include "lucid/data/schema.h"
#include "random/stream.h"

namespace lucid {
namespace {

constexpr std::string_view kSchemaText =
    "column,kind,offset,divisor,categories\n"
    "x1,numeric,0,1,\n"
    "x2,numeric,0,1,\n"
    "label,label,,,below|above\n"
    "# declared = true\n";

// An S through (0, 1/2), (1/2, 1/2) and (1, 1/2) that swings by 0.24 to either side.
double Boundary(double x1) { return 0.5 + 5 * x1 * (x1 - 0.5) * (x1 - 1); }

std::string Rows(std::int64_t count, double overlap, Stream stream) {
  constexpr double kGrid = 1'000'000;  // six decimals: the text holds the value exactly
  const auto coordinate = [&] { return std::floor(stream.Uniform() * (kGrid + 1)) / kGrid; };
  std::string text = "x1,x2,label\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const double x1 = coordinate(), x2 = coordinate();
    const double first = stream.Uniform(), second = stream.Uniform();
    const int label = x2 + overlap * (first - second) > Boundary(x1) ? 1 : 0;
    text += fmt::format("{:.6f},{:.6f},{}\n", x1, x2, label);
  }
  return text;
}

}  // namespace

Status Synthetic2dOptions::Validate() const {
  constexpr std::int64_t kMost = 10'000'000;
  if (rows < 1 || rows > kMost) {
    return InvalidInput(fmt::format("rows is {}, must be from 1 to {}", rows, kMost));
  }
  if (test_rows < 0 || test_rows > kMost) {
    return InvalidInput(fmt::format("test_rows is {}, must be from 0 to {}", test_rows, kMost));
  }
  if (!(overlap >= 0 && overlap <= 1)) {
    return InvalidInput(fmt::format("overlap is {}, must be in [0,1]", overlap));
  }
  return Ok();
}

Status WriteSynthetic2d(const std::string& directory, const Synthetic2dOptions& options) {
  LUCID_TRY(options.Validate());
  const std::int64_t test_rows =
      options.test_rows > 0 ? options.test_rows : std::max<std::int64_t>(1, options.rows * 3 / 7);
  LUCID_ASSIGN(StagedFolder folder, StagedFolder::Create(directory, options.overwrite));
  LUCID_TRY(folder.Write("schema.csv", kSchemaText));
  LUCID_TRY(folder.Write("train.csv", Rows(options.rows, options.overlap,
                                           Stream(options.seed, "data.synth2d.train"))));
  LUCID_TRY(folder.Write(
      "test.csv", Rows(test_rows, options.overlap, Stream(options.seed, "data.synth2d.test"))));
  return folder.Publish();
}

}  // namespace lucid
