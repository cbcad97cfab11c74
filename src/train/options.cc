#include "lucid/train/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "base/number_text.h"
#include "base/text.h"
#include "random/discrete_gaussian.h"

namespace lucid {
namespace {

using Method = TrainOptions::Method;

constexpr std::string_view kScheduleNames[] = {"constant", "cosine"};
constexpr std::string_view kMethodNames[] = {"plain", "clipped", "private"};

// The fields that every method has, behind those of its own.
std::string CommonText(const TrainOptions& o) {
  // Doubles as exact hex floats: two spellings of one number are one number.
  return fmt::format("rate={} weight_decay={} schedule={} momentum={} average_epochs={} seed={}",
                     HexText(o.rate), HexText(o.weight_decay),
                     kScheduleNames[static_cast<int>(o.schedule)], HexText(o.momentum),
                     o.average_epochs, o.seed);
}

// The spelling of format 1, which knew one method and no number of batches.
std::string BlankedText(const TrainOptions& o) {
  return fmt::format("sgd epochs={} batch={} {}", o.epochs, o.batch, CommonText(o));
}

// "name=value name=value ..." behind the first word, value by name; "" where it is not there.
std::string FieldOf(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(" " + name + "=");
  if (at == std::string::npos) return "";
  const std::size_t first = at + name.size() + 2;
  return text.substr(first, std::min(text.find(' ', first), text.size()) - first);
}

}  // namespace

Result<TrainOptions> TrainOptions::Preset(const std::string& name) {
  TrainOptions options;
  if (name == "paper") return options;
  options.schedule = Schedule::kCosine;
  if (name == "stable") return options;
  if (name == "clipped" || name == "private") {
    options.method = name == "clipped" ? Method::kClipped : Method::kPrivate;
    options.weight_decay = 0;
    return RecipeFor(options, 1'000'000);
  }
  return InvalidInput(
      fmt::format("unknown preset '{}': use paper, stable, clipped or private", name));
}

TrainOptions RecipeFor(const TrainOptions& options, std::int64_t expected_rows) {
  TrainOptions recipe = options;
  const bool is_private = options.method == Method::kPrivate;
  const bool noisy = is_private && options.epsilon < 0.5, few = expected_rows < kFewRows;
  recipe.clip = 0.3;
  recipe.schedule = TrainOptions::Schedule::kCosine;
  // Of few rows, or with much noise, the moments would be mostly noise.
  recipe.standardise =
      !few &&
      (!is_private || static_cast<double>(expected_rows) * options.epsilon >= kRowsTimesEpsilon);
  recipe.rate = 1;
  recipe.batch = 512;
  recipe.epochs = 20;
  if (noisy || (is_private && few)) {
    // Larger batches: less noise in a step, and members stay closer.
    recipe.batch = std::clamp<std::int64_t>(expected_rows / 2, 1, 1024);
    recipe.epochs = noisy ? 30 : 40;
    // Inputs as they are need larger steps.
    if (!recipe.standardise) recipe.rate = 4;
  } else if (few) {
    // Without noise, many small steps cost nothing.
    recipe.batch = 32;
    recipe.epochs = 50;
  }
  return recipe;
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
  if (!(expected_rows >= 0 && expected_rows <= 1'000'000'000)) {
    return refuse("expected-rows", expected_rows, "from 1 to 1000000000");
  }
  if (!(batches >= 0 && batches <= 1'000'000'000)) {
    return refuse("batches", batches, "from 1 to 1000000000");
  }
  // DiscreteGaussian samples no more.
  for (const std::uint64_t variance : {noise_variance, moments_variance}) {
    if (variance > DiscreteGaussian::kMaxVariance) {
      return refuse("noise variance", variance, "at most 2^52");
    }
  }
  if (moments_variance != 0 && !(method == Method::kPrivate && standardise)) {
    return refuse("moments variance", moments_variance, "0 where there is no noise of moments");
  }
  if (method == Method::kPlain) {
    return standardise ? refuse("standardise", standardise, "false where nothing is clipped")
                       : Ok();
  }
  if (!(clip >= 0x1p-20 && clip <= 0x1p20)) return refuse("clip", clip, "from 2^-20 to 2^20");
  if (!(rows_per_unit >= 1 && rows_per_unit <= 8)) {
    return refuse("rows-per-unit", rows_per_unit, "from 1 to 8");
  }
  if (method == Method::kClipped) return Ok();
  if (!(epsilon > 0 && epsilon <= 1000)) {
    return refuse("train-epsilon", epsilon, "above 0 and at most 1000");
  }
  if (!(delta >= 0 && delta < 1)) return refuse("train-delta", delta, "above 0 and below 1");
  return Ok();
}

std::string TrainOptions::Canonical() const {
  if (!IsResolved()) return BlankedText(*this);
  std::string text = fmt::format("sgd-2 method={} epochs={} batch={} batches={}",
                                 kMethodNames[static_cast<int>(method)], epochs, batch, batches);
  if (method != Method::kPlain) {
    text += fmt::format(" expected_rows={} clip={} rows_per_unit={}", expected_rows, HexText(clip),
                        rows_per_unit);
  }
  if (method == Method::kPrivate) {
    text += fmt::format(" epsilon={} delta={} noise_variance={}", HexText(epsilon), HexText(delta),
                        noise_variance);
  }
  if (method != Method::kPlain && standardise) {
    text += fmt::format(" standardise=1 moments_variance={}", moments_variance);
  }
  return text + " " + CommonText(*this);
}

Result<TrainOptions> TrainOptions::FromCanonical(const std::string& text) {
  TrainOptions options;
  const auto scan = [&text](const std::string& name, const char* format, auto* value) {
    // NOLINTNEXTLINE(cert-err34-c): whatever was scanned must give the whole text again.
    std::sscanf(FieldOf(text, name).c_str(), format, value);
  };
  const auto number = [&scan](const std::string& name, std::int64_t* value) {
    scan(name, "%" SCNd64, value);
  };
  const std::string method = FieldOf(text, "method");
  for (const Method each : {Method::kPlain, Method::kClipped, Method::kPrivate}) {
    if (method == kMethodNames[static_cast<int>(each)]) options.method = each;
  }
  options.standardise = FieldOf(text, "standardise") == "1";
  scan("moments_variance", "%" SCNu64, &options.moments_variance);
  if (FieldOf(text, "schedule") == kScheduleNames[1]) options.schedule = Schedule::kCosine;
  number("epochs", &options.epochs);
  number("batch", &options.batch);
  number("batches", &options.batches);
  number("expected_rows", &options.expected_rows);
  number("rows_per_unit", &options.rows_per_unit);
  number("average_epochs", &options.average_epochs);
  scan("noise_variance", "%" SCNu64, &options.noise_variance);
  scan("seed", "%" SCNu64, &options.seed);
  for (const auto& [name, value] :
       {std::pair{"rate", &options.rate}, std::pair{"weight_decay", &options.weight_decay},
        std::pair{"momentum", &options.momentum}, std::pair{"clip", &options.clip},
        std::pair{"epsilon", &options.epsilon}, std::pair{"delta", &options.delta}}) {
    scan(name, "%la", value);
  }
  if (!options.Validate().ok() || options.Canonical() != text) {
    return InvalidInput(fmt::format("'{}' is not how LUCID itself trains", text));
  }
  return options;
}

}  // namespace lucid
