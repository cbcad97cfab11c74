#include "lucid/train/options.h"

#include <fmt/format.h>

#include <cinttypes>
#include <cmath>
#include <cstdio>

namespace lucid {
namespace {

constexpr std::string_view kScheduleNames[] = {"constant", "cosine"};

}  // namespace

Result<TrainOptions> TrainOptions::Preset(const std::string& name) {
  TrainOptions options;
  if (name == "paper") return options;
  if (name == "stable") {
    options.schedule = Schedule::kCosine;
    return options;
  }
  return InvalidInput(fmt::format("unknown preset '{}': use paper or stable", name));
}

Status TrainOptions::Validate() const {
  const auto refuse = [](std::string_view field, auto value, std::string_view rule) {
    return InvalidInput(fmt::format("training option {} is {}, must be {}", field, value, rule));
  };
  // NaN fails every comparison, so each rule is written as what must hold.
  if (!(epochs >= 1 && epochs <= 1'000'000)) return refuse("epochs", epochs, "from 1 to 1000000");
  if (!(batch >= 1 && batch <= 1'000'000'000)) return refuse("batch", batch, "at least 1");
  if (!(rate > 0 && rate <= 1000)) return refuse("lr", rate, "above 0 and at most 1000");
  if (!(weight_decay >= 0 && weight_decay <= 100)) {
    return refuse("weight-decay", weight_decay, "from 0 to 100");
  }
  if (!(momentum >= 0 && momentum < 1)) return refuse("momentum", momentum, "at least 0, below 1");
  if (!(average_epochs >= 0 && average_epochs <= epochs)) {
    return refuse("average-epochs", average_epochs, fmt::format("from 0 to epochs ({})", epochs));
  }
  return Ok();
}

std::string TrainOptions::Canonical() const {
  // Doubles as exact hex floats: two spellings of one number are one number.
  return fmt::format(
      "sgd epochs={} batch={} rate={:a} weight_decay={:a} schedule={} momentum={:a} "
      "average_epochs={} "
      "seed={}",
      epochs, batch, rate, weight_decay, kScheduleNames[static_cast<int>(schedule)], momentum,
      average_epochs, seed);
}

Result<TrainOptions> TrainOptions::FromCanonical(const std::string& text) {
  TrainOptions options;
  char schedule[16] = "";
  // NOLINTNEXTLINE(cert-err34-c): whatever was scanned must give the whole text again.
  std::sscanf(text.c_str(),
              "sgd epochs=%" SCNd64 " batch=%" SCNd64
              " rate=%la weight_decay=%la schedule=%15s momentum=%la average_epochs=%" SCNd64
              " seed=%" SCNu64,
              &options.epochs, &options.batch, &options.rate, &options.weight_decay, schedule,
              &options.momentum, &options.average_epochs, &options.seed);
  if (schedule == kScheduleNames[static_cast<int>(Schedule::kCosine)]) {
    options.schedule = Schedule::kCosine;
  }
  if (!options.Validate().ok() || options.Canonical() != text) {
    return InvalidInput(fmt::format("'{}' is not how LUCID itself trains", text));
  }
  return options;
}

}  // namespace lucid
