#include "ensemble/run_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/hasher.h"
#include "base/number_text.h"

namespace lucid {
namespace {

constexpr std::string_view kImported = "imported ";

}  // namespace

Result<Shard> Shard::Parse(const std::string& text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  bool good = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  if (good) {
    const auto second = std::from_chars(first.ptr + 1, end, shard.count);
    good = second.ec == std::errc() && second.ptr == end;
  }
  if (!good || shard.index < 1 || shard.count < 1 || shard.index > shard.count) {
    return InvalidInput(fmt::format(
        "the option shard: '{}' is not i/n with 1 <= i <= n (the first of four is 1/4)", text));
  }
  return shard;
}

Digest RunKey(int format, const RunContents& contents) {
  Hasher hasher;
  hasher.Text(format == 1 ? "lucid-run-1" : "lucid-run-2")
      .Bytes(std::as_bytes(std::span(contents.schema.bytes)))
      .Bytes(std::as_bytes(std::span(contents.train.bytes)))
      .Text(contents.architecture)
      .Text(contents.training);
  if (format != 1) {
    hasher.Number(static_cast<std::uint64_t>(contents.rows))
        .Number(static_cast<std::uint64_t>(contents.units));
  }
  if (contents.secret) hasher.Bytes(std::as_bytes(std::span(contents.secret->bytes)));
  if (!contents.choices.empty()) hasher.Text(contents.choices);
  return hasher.Finish();
}

std::string TrainingText(const EnsembleOptions& options) {
  if (options.trainer.empty()) return options.train.Canonical();
  return fmt::format("{} seed={} {}", options.trainer_stays ? "worker" : "command",
                     options.train.seed, options.trainer);
}

std::string ChoicesText(const std::string& after_looking, double r, const std::string& reference) {
  std::string text;
  if (r > 0) text += fmt::format("declared r={} reference={}\n", HexText(r), reference);
  if (!after_looking.empty()) text += fmt::format("after looking: {}\n", after_looking);
  return text;
}

std::string ImportedText(const Digest& networks) {
  return fmt::format("{}{}", kImported, networks.Hex());
}

bool IsImported(const std::string& training) { return training.starts_with(kImported); }

std::vector<std::int64_t> NetworkRows(const std::vector<Unit>& units, std::int64_t members) {
  const auto all = static_cast<std::int64_t>(units.size());
  const std::int64_t count = members == 0 ? all : members;
  std::vector<std::int64_t> result = {-1};
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(units[static_cast<std::size_t>(i * all / count)].row);
  }
  return result;
}

std::vector<std::int64_t> BlankedNetworkRows(std::int64_t rows, std::int64_t members) {
  const std::int64_t count = members == 0 ? rows : members;
  std::vector<std::int64_t> result = {-1};
  for (std::int64_t i = 0; i < count; ++i) result.push_back(i * rows / count);
  return result;
}

Status CheckNetworkRows(const std::vector<std::int64_t>& networks, std::int64_t rows) {
  const auto not_below = [](std::int64_t a, std::int64_t b) { return a >= b; };
  if (!networks.empty() && networks.front() == -1 && networks.back() < rows &&
      std::ranges::adjacent_find(networks, not_below) == networks.end()) {
    return Ok();
  }
  return Mismatch(fmt::format("its rows are not N and ascending ones of the {} of the data", rows));
}

std::vector<std::int64_t> ShardOf(const std::vector<std::int64_t>& rows, const Shard& shard) {
  const auto n = static_cast<std::int64_t>(rows.size());
  return {rows.begin() + (shard.index - 1) * n / shard.count,
          rows.begin() + shard.index * n / shard.count};
}

std::string ShardFile(const Shard& shard) {
  return fmt::format("shard-{}-of-{}.safetensors", shard.index, shard.count);
}

Status CheckData(const Dataset& dataset, const std::vector<Unit>& units,
                 const Architecture& architecture, bool total) {
  if (units.size() < 2 && !total) {
    return InvalidInput(
        fmt::format("{}: {} unit(s) in {} training row(s); leaving one out needs at least 2",
                    dataset.directory, units.size(), dataset.train.rows()));
  }
  if (architecture.inputs() != dataset.features() || architecture.classes() != dataset.classes()) {
    return InvalidInput(
        fmt::format("architecture '{}' does not fit data of {} features and {} classes",
                    architecture.Canonical(), dataset.features(), dataset.classes()));
  }
  return Ok();
}

Result<StoreSpec> WholeRun(const Dataset& dataset, const std::vector<Unit>& units,
                           const Architecture& architecture, const EnsembleOptions& options,
                           const std::optional<Digest>& secret, const std::string& choices) {
  if (options.members < 0 || options.members > std::ssize(units)) {
    return InvalidInput(
        fmt::format("the option members is {}, must be from 1 to the {} different units",
                    options.members, units.size()));
  }
  StoreSpec spec{architecture,
                 RunKey(2, {dataset.schema_digest, dataset.train_digest, dataset.train.rows(),
                            std::ssize(units), architecture.Canonical(), TrainingText(options),
                            secret, choices}),
                 NetworkRows(units, options.members), dataset.train_order};
  if (options.shard.count > static_cast<std::int64_t>(spec.rows.size())) {
    return InvalidInput(fmt::format("the option shard is {}/{}: more shards than the {} networks",
                                    options.shard.index, options.shard.count, spec.rows.size()));
  }
  return spec;
}

}  // namespace lucid
